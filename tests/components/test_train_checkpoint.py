"""Checkpoints on their own: what is written, kept, and trusted."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

from torch import nn  # noqa: E402

from wsshards.errors import UserError  # noqa: E402
from wsshards.manifest import add_checksum  # noqa: E402
from wstrain.checkpoint import (  # noqa: E402
    checkpoint_folder,
    latest_checkpoint,
)
from wstrain.checkpoint.checkpoint_folder import Retention  # noqa: E402
from wstrain.settings import OptimizerOptions  # noqa: E402
from wstrain_torch import optimizers  # noqa: E402
from wstrain_torch.checkpoint import sharded_checkpoint, tensor_state  # noqa: E402

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

SAME = {"model": "cnn", "seed": 0}


def state(step: int) -> dict[str, object]:
    return {"step": step, "model": {"w": torch.full((1000,), float(step))}, "optimizer": {"lr": 0.1}}


def save(folder: Path, *steps: int, keep: Retention | None = None, **about: Any) -> None:
    for step in steps:
        checkpoint_folder.save_checkpoint(
            folder, step, state(step), SAME, keep=keep or Retention(3), about=about
        )


def test_the_newest_are_kept_and_the_newest_is_found(tmp_path: Path) -> None:
    save(tmp_path, 5, 10, 15, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{step:08d}" for step in (10, 15, 20)]
    newest = latest_checkpoint.find_latest_checkpoint([tmp_path])
    assert newest is not None
    assert (newest.step, newest.identity) == (20, SAME)
    assert torch.equal(checkpoint_folder.load_state(newest)["model"]["w"], torch.full((1000,), 20.0))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_the_best_that_a_kept_one_names_stays_however_old(tmp_path: Path) -> None:
    keep = Retention(2, best=True)
    for step, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 2)):
        save(tmp_path, step, keep=keep, validation={"best_step": best})
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "4", "5"]
    save(tmp_path, 6, keep=keep, validation={"best_step": 6})
    # Should 6 be damaged, 5 is resumed from, which knows of 2.
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "5", "6"]
    save(tmp_path, 7, keep=keep, validation={"best_step": 6})
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["6", "7"]
    save(tmp_path, 8, keep=Retention(2), validation={"best_step": 6})
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["7", "8"]


def test_a_checkpoint_is_copied_whole(tmp_path: Path) -> None:
    save(tmp_path / "first", 3, validation={"best_step": 3})
    found = latest_checkpoint.find_checkpoint_of_step([tmp_path / "second", tmp_path / "first"], 3)
    assert found is not None
    checkpoint_folder.copy_checkpoint(found, tmp_path / "second")
    copy = latest_checkpoint.find_checkpoint_of_step([tmp_path / "second"], 3)
    assert copy is not None
    assert copy.validation == {"best_step": 3}
    assert [path.name for path in (tmp_path / "second").iterdir()] == ["step-00000003"]
    flip(copy.path / "state.pt", 200)
    assert latest_checkpoint.find_checkpoint_of_step([tmp_path / "second"], 3) is None


def test_every_rank_vouches_for_its_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path, 5, 10)
    said = iter([[[str(tmp_path / "step-00000010"), str(tmp_path / "step-00000005")]], [None, "i/o error"]])

    def everyone(value: Any) -> list[Any]:
        return next(said, [value, value])

    newest = latest_checkpoint.find_latest_checkpoint(
        [tmp_path], latest_checkpoint.ReadShare(0, 2, gather=everyone)
    )
    assert newest is not None
    assert newest.step == 5
    assert "`step-00000010` is damaged (i/o error)" in capsys.readouterr().err
    said = iter([[[str(tmp_path / "step-00000010")]], [None, "does not exist"]])
    with pytest.raises(UserError, match="`step-00000010` is whole for rank 0, but rank 1 does not see it"):
        latest_checkpoint.find_latest_checkpoint(
            [tmp_path], latest_checkpoint.ReadShare(0, 2, gather=everyone)
        )


@pytest.mark.parametrize(
    ("file", "damage", "reason"),
    [
        ("state.pt", lambda path: flip(path, 2000), "`state.pt` has another sha256 than when it was written"),
        ("state.pt", lambda path: os.truncate(path, 100), "`state.pt` has 100 bytes instead of"),
        ("state.pt", Path.unlink, "`state.pt` is missing"),
        ("checkpoint.json", Path.unlink, "`checkpoint.json` is missing"),
        ("checkpoint.json", lambda path: os.truncate(path, 40), "`checkpoint.json` is not what was written"),
        ("checkpoint.json", lambda path: flip(path, 13), "`checkpoint.json` is not what was written"),
        ("checkpoint.json", lambda path: path.write_text("[1]"), "`checkpoint.json` is not what was written"),
    ],
)
def test_a_damaged_newest_is_passed_over_aloud(
    tmp_path: Path,
    file: str,
    damage: Callable[[Path], object],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    save(tmp_path, 5, 10)
    damage(tmp_path / "step-00000010" / file)
    newest = latest_checkpoint.find_latest_checkpoint([tmp_path])
    assert newest is not None
    assert newest.step == 5
    assert f"warning: checkpoint `step-00000010` is damaged ({reason}" in capsys.readouterr().err


def test_what_is_being_written_is_not_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 5)
    shutil.copytree(tmp_path / "step-00000005", tmp_path / ".writing-step-00000010")
    newest = latest_checkpoint.find_latest_checkpoint([tmp_path])
    assert newest is not None
    assert newest.step == 5


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
    newest = latest_checkpoint.find_latest_checkpoint([tmp_path])
    assert newest is not None
    assert newest.step == 10


def test_the_newest_of_several_folders_wins(tmp_path: Path) -> None:
    save(tmp_path / "own", 5)
    save(tmp_path / "other", 10)
    newest = latest_checkpoint.find_latest_checkpoint(
        [tmp_path / "own", tmp_path / "other", tmp_path / "missing"]
    )
    assert newest is not None
    assert newest.path == tmp_path / "other" / "step-00000010"
    assert latest_checkpoint.find_latest_checkpoint([tmp_path / "missing"]) is None


def test_another_training_is_not_gone_on_with(tmp_path: Path) -> None:
    save(tmp_path, 5)
    newest = latest_checkpoint.find_latest_checkpoint([tmp_path])
    assert newest is not None
    checkpoint_folder.expect_identity(newest, SAME)
    with pytest.raises(UserError, match="was trained with `seed` 0, but this run has 1"):
        checkpoint_folder.expect_identity(newest, {**SAME, "seed": 1})


def spread(mesh: DeviceMesh, *values: float) -> Any:
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(torch.tensor(values), mesh, [Shard(0)])


def save_parts(folder: Path, step: int, tensors: dict[str, Any]) -> Path:
    temporary = checkpoint_folder.begin_checkpoint(folder, step)
    layout = sharded_checkpoint.plan_layout(tensors, 0, lambda value: [value])
    written = sharded_checkpoint.write_part(
        temporary, layout, sharded_checkpoint.select_own_slices(layout, tensors)
    )
    files = sharded_checkpoint.write_metadata(temporary, layout, [written])
    return checkpoint_folder.finish_checkpoint(temporary, files, {"identity": SAME}, keep=Retention(3))


def test_parts_are_read_whole_or_sliced(tmp_path: Path, group_of_one: DeviceMesh) -> None:
    save_parts(tmp_path, 5, {"model.w": spread(group_of_one, 1.0, 2.0, 3.0), "step": torch.tensor(5.0)})
    newest = latest_checkpoint.find_latest_checkpoint([tmp_path])
    assert newest is not None
    assert (newest.step, newest.is_sharded, newest.identity) == (5, True, SAME)
    stored = sharded_checkpoint.ShardedCheckpoint(newest.path)
    assert {name: tuple(like.shape) for name, like in stored.like.items()} == {"model.w": (3,), "step": ()}
    whole, sliced, step = torch.zeros(3), spread(group_of_one, 0.0, 0.0, 0.0), torch.zeros(())
    stored.fill({"model.w": whole, "step": step})
    stored.fill({"model.w": sliced})
    assert whole.tolist() == sliced.full_tensor().tolist() == [1.0, 2.0, 3.0]
    assert step.item() == 5.0


def test_a_checkpoint_says_nothing_of_the_machine_that_wrote_it(
    tmp_path: Path, group_of_one: DeviceMesh
) -> None:
    folder = save_parts(tmp_path / "here", 5, {"w": spread(group_of_one, 1.0)})
    again = save_parts(tmp_path / "there", 5, {"w": spread(group_of_one, 1.0)})
    for path in folder.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()
        assert path.read_bytes() == (again / path.name).read_bytes()


def test_nothing_in_a_list_of_parts_is_executed(tmp_path: Path, group_of_one: DeviceMesh) -> None:
    folder = save_parts(tmp_path, 5, {"w": spread(group_of_one, 1.0)})
    ran = tmp_path / "ran"
    payload = b"cos\nsystem\n(S'touch " + str(ran).encode() + b"'\ntR."
    (folder / ".metadata").write_bytes(payload)
    with pytest.raises(
        UserError, match=re.escape("cannot read checkpoint `step-00000005`: `.metadata` names")
    ):
        sharded_checkpoint.ShardedCheckpoint(folder)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["../other", "/etc/hostname", "a/b", ""])
def test_a_card_cannot_name_files_elsewhere(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 5)
    path = tmp_path / "step-00000005" / checkpoint_folder.CARD
    card = json.loads(path.read_text().replace(checkpoint_folder.STATE, name))
    del card["sha256"]
    path.write_text(json.dumps(add_checksum(card)))
    assert latest_checkpoint.find_latest_checkpoint([tmp_path]) is None
    assert f"`checkpoint.json` names a file `{name}`" in capsys.readouterr().err


def test_a_part_that_rank_0_does_not_see_is_no_checkpoint(tmp_path: Path) -> None:
    temporary = checkpoint_folder.begin_checkpoint(tmp_path, 5)
    (temporary / "__0_0.distcp").write_bytes(b"part")
    files = {f"__{rank}_0.distcp": {"bytes": 4, "sha256": ""} for rank in (0, 1)}
    with pytest.raises(UserError, match=r"part `__1_0.distcp` of checkpoint `step-00000005` was written by"):
        checkpoint_folder.finish_checkpoint(temporary, files, {"identity": SAME}, keep=Retention(3))
    assert list(tmp_path.iterdir()) == []


def trained(model: Any, optimizer: Any, steps: int) -> None:
    torch.manual_seed(0)
    for _ in range(steps):
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_state_by_name_is_the_state_by_number(name: str) -> None:
    def made(seed: int) -> tuple[Any, Any, Any]:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
        model[0].bias.requires_grad_(False)
        options = OptimizerOptions(name, weight_decay=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
        return model, optimizers.build_optimizer(model, options, learning_rate=0.1), scaler

    model, optimizer, scaler = made(1)
    trained(model, optimizer, 3)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
    order = optimizers.parameter_order(model)

    by_name, by_number = made(2), made(3)
    tensor_state.restore_tensors(tensor_state.from_state_dicts(state, order), *by_name)
    taken = tensor_state.InMemoryTensors(tensor_state.collect_tensors(*by_name))
    own = {"model": by_number[0].state_dict(), "optimizer": by_number[1].state_dict(), "scaler": {}}
    again = tensor_state.to_state_dicts(taken, own, order)
    by_number[0].load_state_dict(again["model"])
    by_number[1].load_state_dict(again["optimizer"])
    assert again["scaler"] == by_name[2].state_dict() == scaler.state_dict()
    for one in ((model, optimizer), by_name[:2], by_number[:2]):
        trained(*one, 2)
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, by_name[0].state_dict()[key]), key
        assert torch.equal(tensor, by_number[0].state_dict()[key]), key


def test_another_model_is_not_filled() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters())
    wide = tensor_state.InMemoryTensors({"model.weight": torch.zeros(2, 5), "model.bias": torch.zeros(2)})
    with pytest.raises(
        UserError, match=re.escape("`weight` of the model has shape [2, 4], but in the checkpoint it has")
    ):
        tensor_state.restore_tensors(wide, model, optimizer, torch.amp.GradScaler("cpu", enabled=False))
    with pytest.raises(
        UserError, match=re.escape("`bias` of the model has shape [2], but in the checkpoint it is missing")
    ):
        tensor_state.restore_tensors(
            tensor_state.InMemoryTensors({"model.weight": torch.zeros(2, 4)}),
            model,
            optimizer,
            torch.amp.GradScaler("cpu", enabled=False),
        )
