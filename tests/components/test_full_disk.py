"""A disk that is really full: one sentence, nothing half-written, and with space again it goes on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(300)]

import worldsize  # noqa: E402
from worldsize.documents.errors import OutputError  # noqa: E402
from wsshards import manifest, verify  # noqa: E402
from wsshards.errors import UserError  # noqa: E402
from wstrain.checkpoint import (  # noqa: E402
    checkpoint_folder,
    latest_checkpoint,
)
from wstrain.checkpoint.checkpoint_folder import Retention  # noqa: E402
from wstrain.checkpoint.saver import BackgroundWriter  # noqa: E402
from wstrain_torch import data as tasks  # noqa: E402
from wstrain_torch import export  # noqa: E402

FULL = "no space left on device"
PLAN = {
    "epochs": 1,
    "batch_size_per_device": 64,
    "global_batch_size": 64,
    "learning_rate": 0.1,
    "model": "mlp",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 512 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)


def state(kilobytes: int) -> dict[str, Any]:
    return {"model": {"w": torch.zeros(kilobytes * 256)}}


@pytest.mark.smoke
def test_a_checkpoint(disk: Path) -> None:
    checkpoint_folder.save_checkpoint(disk, 1, state(100), {}, keep=Retention(2))
    background = BackgroundWriter()
    background.start(
        lambda: checkpoint_folder.save_checkpoint(disk, 2, state(600), {}, keep=Retention(2)) and None
    )
    background.wait()
    with pytest.raises(UserError, match=f"cannot write checkpoint `step-00000002`: {FULL}") as raised:
        background.take_failure()
    assert raised.value.help == "free space for it and resume; older checkpoints are whole"
    assert [path.name for path in disk.iterdir()] == ["step-00000001"]
    newest = latest_checkpoint.find_latest_checkpoint([disk])
    assert newest is not None
    assert newest.step == 1
    grow(disk)
    checkpoint_folder.save_checkpoint(disk, 2, state(600), {}, keep=Retention(2))
    assert sorted(path.name for path in disk.iterdir()) == ["step-00000001", "step-00000002"]


def test_a_training_that_writes_beside_its_steps(
    disk: Path, training: Callable[..., Any], built_in_shards: Callable[[str], Path]
) -> None:
    plan = PLAN | {"shards": built_in_shards("digits"), "checkpoint_every_steps": 4, "keep_checkpoints": 9}
    (disk / "other").write_bytes(bytes(350 * 1024))
    stopped = training(1, checkpoints=disk / "checkpoints", **plan)
    assert stopped.ranks[0].status == 2, stopped.errors
    assert "Traceback" not in stopped.ranks[0].stderr
    assert f": {FULL}\n" in stopped.ranks[0].stderr
    whole = {path.name for path in (disk / "checkpoints").iterdir()}
    assert all(name.startswith("step-") for name in whole)
    (disk / "other").unlink()
    grow(disk)
    finished = training(1, checkpoints=disk / "checkpoints", **plan)
    assert finished.ok, finished.errors
    if whole:
        assert f"resuming from checkpoint {max(whole)}" in finished.ranks[0].stdout


def test_shards(disk: Path, component: Callable[..., Any]) -> None:
    other, shards = disk / "other", disk / "shards"
    other.write_bytes(bytes(350 * 1024))
    stopped = component("shard_data", source="builtin:digits", shards=shards, shard_count=2)
    assert stopped.returncode == 2, stopped.stderr
    assert f": {FULL}" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert not [path for path in disk.rglob("*") if path.is_file() and path != other]
    other.unlink()
    assert component("shard_data", source="builtin:digits", shards=shards, shard_count=2).returncode == 0
    verify.verify_shards(shards, manifest.read_manifest(shards))


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore")  # what MLflow and torch.export say of themselves
def test_a_model(disk: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3000), torch.nn.Linear(3000, 10))
    task = tasks.make_task("classification", (1, 8, 8), "float32", 10)
    with pytest.raises(UserError, match=f"cannot write the model: {FULL}"):
        export.save_model(network, task, disk / "model", {})
    assert not (disk / "model" / "MLmodel").exists()
    grow(disk)
    export.save_model(network, task, disk / "model", {})
    assert (disk / "model" / "MLmodel").exists()


@pytest.mark.smoke
def test_a_compile(disk: Path, tmp_path: Path) -> None:
    spec = Path(__file__).parents[2] / "pipelines" / "digits_ddp.yml"
    with pytest.raises(OutputError, match=f"could not be written: {FULL}"):
        worldsize.compile(spec, disk / "out")
    assert list(disk.iterdir()) == []
    grow(disk)
    assert worldsize.compile(spec, disk / "out").pipeline.is_file()
