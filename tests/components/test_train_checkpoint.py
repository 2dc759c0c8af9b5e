"""Checkpoints on their own: what is written, kept, and trusted."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.run

from wstrain import checkpoint  # noqa: E402
from wstrain.errors import UserError  # noqa: E402

SAME = {"model": "cnn", "seed": 0}


def state(step: int) -> dict[str, object]:
    return {"step": step, "model": {"w": torch.full((1000,), float(step))}, "optimizer": {"lr": 0.1}}


def save(folder: Path, *steps: int, keep: int = 3) -> None:
    for step in steps:
        checkpoint.save(folder, step, state(step), SAME, keep=keep)


def test_the_newest_are_kept_and_the_newest_is_found(tmp_path: Path) -> None:
    save(tmp_path, 5, 10, 15, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{step:08d}" for step in (10, 15, 20)]
    found = checkpoint.newest([tmp_path])
    assert found is not None
    assert (found.step, found.identity) == (20, SAME)
    assert torch.equal(checkpoint.load(found)["model"]["w"], torch.full((1000,), 20.0))


@pytest.mark.parametrize("damage", ["flip", "truncate", "no-state", "no-card", "bad-card"])
def test_a_damaged_newest_is_passed_over_aloud(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 5, 10)
    newest = tmp_path / "step-00000010"
    data = bytearray((newest / checkpoint.STATE).read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        (newest / checkpoint.STATE).write_bytes(data)
    elif damage == "truncate":
        (newest / checkpoint.STATE).write_bytes(data[:-7])
    elif damage == "no-state":
        (newest / checkpoint.STATE).unlink()
    elif damage == "no-card":
        (newest / checkpoint.CARD).unlink()
    else:
        (newest / checkpoint.CARD).write_text("[1, 2")
    found = checkpoint.newest([tmp_path])
    assert found is not None
    assert found.step == 5
    assert "warning: checkpoint `step-00000010` is damaged" in capsys.readouterr().err


def test_what_is_being_written_is_not_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 5)
    shutil.copytree(tmp_path / "step-00000005", tmp_path / ".writing-step-00000010")
    found = checkpoint.newest([tmp_path])
    assert found is not None
    assert found.step == 5


def test_a_disk_that_fills_up_harms_no_older_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 5)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(UserError, match="cannot write checkpoint `step-00000010`: file too large"):
            save(tmp_path, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]
    save(tmp_path, 10)
    found = checkpoint.newest([tmp_path])
    assert found is not None
    assert found.step == 10


def test_the_newest_of_several_folders_wins(tmp_path: Path) -> None:
    save(tmp_path / "own", 5)
    save(tmp_path / "other", 10)
    found = checkpoint.newest([tmp_path / "own", tmp_path / "other", tmp_path / "missing"])
    assert found is not None
    assert found.path == tmp_path / "other" / "step-00000010"
    assert checkpoint.newest([tmp_path / "missing"]) is None


def test_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    save(tmp_path, 5)
    found = checkpoint.newest([tmp_path])
    assert found is not None
    checkpoint.expect_identity(found, SAME)
    with pytest.raises(UserError, match="was trained with `seed` 0, but this run has 1"):
        checkpoint.expect_identity(found, {**SAME, "seed": 1})
