"""train_ddp with sharded weights, in real process groups: the curve of one process at any degree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:The given buffer is not writable"),  # torch 2.10, of what it loads
]

Training = Callable[..., Any]
GROUP = 32  # samples of one step
LAW = {"model": "gpt", "gpt_layers": 2, "gpt_width": 32, "epochs": 0.01, "stop_after_steps": 6}
LAW |= {"optimizer": "adamw", "weight_decay": 0.1, "max_gradient_norm": 0.5, "learning_rate": 0.003}
LAW |= {"batch_size_per_device": 4, "global_batch_size": GROUP, "keep_checkpoints": 3}


@pytest.fixture(scope="module")
def text(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("python-source")


@pytest.fixture(scope="module")
def train(training: Training, text: Path) -> Callable[..., Any]:
    """Train at a number of processes on the same global batches; must go well."""

    def run(processes: int, **values: Any) -> Any:
        accumulation = GROUP // 4 // processes
        plan = LAW | {"shards": text, "gradient_accumulation_steps": accumulation} | values
        done = training(processes, **plan)
        assert done.ok, done.errors
        return done

    return run


@pytest.fixture(scope="module")
def alone(train: Callable[..., Any]) -> Any:
    """One process with the whole model: the reference."""
    run = train(1, checkpoint_every_steps=3)
    assert sorted(run.losses) == [1, 2, 3, 4, 5, 6]
    return run


@pytest.fixture(scope="module")
def four(train: Callable[..., Any]) -> Any:
    """Four ranks, stopped after four steps, with checkpoints of two and of four."""
    return train(4, strategy="fsdp", stop_after_steps=4, checkpoint_every_steps=2)


def assert_on_curve(run: Any, reference: Any, steps: list[int]) -> None:
    assert sorted(run.losses) == steps
    for step in steps:
        assert run.losses[step] == pytest.approx(reference.losses[step], rel=1e-4), f"step {step}"


def exported(run: Any) -> dict[str, Any]:
    """Weights of the MLflow model, which must be whole and ordinary tensors."""
    (program,) = (run.folder / "model").rglob("program.pt2")
    return dict(torch.export.load(program).state_dict)


@pytest.mark.smoke
def test_two_ranks_walk_the_curve_of_one_and_export_the_same_model(
    train: Callable[..., Any], alone: Any
) -> None:
    run = train(2, strategy="fsdp", activation_checkpointing="blocks")
    assert_on_curve(run, alone, [1, 2, 3, 4, 5, 6])
    whole, own = exported(alone), exported(run)
    assert own.keys() == whole.keys()
    for name, tensor in whole.items():
        assert type(own[name]) is type(tensor)
        assert torch.allclose(own[name], tensor, atol=2e-5), name


@pytest.mark.smoke
def test_every_rank_writes_its_part_and_the_card_lists_them(four: Any, alone: Any) -> None:
    assert_on_curve(four, alone, [1, 2, 3, 4])
    folder = four.folder / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000002", "step-00000004"]
    card = json.loads((folder / "step-00000004" / "checkpoint.json").read_text())
    files = {path.name: path.stat().st_size for path in (folder / "step-00000004").iterdir()}
    size = files.pop("checkpoint.json")
    assert size < 4096
    assert {name: file["bytes"] for name, file in card["files"].items()} == files
    assert sorted(files) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(4))]
    assert (card["strategy"], card["mesh"]) == ("fsdp", {"data": 4, "tensor": 1, "pipeline": 1})
    parts = [files[f"__{rank}_0.distcp"] for rank in range(4)]
    assert max(parts) < 1.3 * min(parts)  # nobody writes for the others


@pytest.mark.parametrize(
    ("processes", "choices"),
    [
        (2, {"strategy": "fsdp", "fsdp_reshard": "never", "fsdp_reduce": "micro_batch"}),
        (1, {"strategy": "fsdp", "fsdp_reshard": "always"}),
        (1, {"strategy": "ddp"}),
    ],
)
def test_what_four_ranks_saved_is_gone_on_with_by_fewer(
    train: Callable[..., Any], four: Any, alone: Any, processes: int, choices: dict[str, Any]
) -> None:
    run = train(processes, resume_from=four.folder / "checkpoints", **choices)
    assert "resuming from checkpoint step-00000004: 4 steps done" in run.ranks[0].stdout
    assert_on_curve(run, alone, [5, 6])


def test_a_damaged_part_is_passed_over_for_the_checkpoint_before(
    train: Callable[..., Any], four: Any, alone: Any, tmp_path: Path
) -> None:
    shutil.copytree(four.folder / "checkpoints", tmp_path / "damaged")
    part = tmp_path / "damaged" / "step-00000004" / "__2_0.distcp"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    run = train(2, strategy="fsdp", resume_from=tmp_path / "damaged")
    warning = "checkpoint `step-00000004` is damaged (`__2_0.distcp` has another sha256 than when it was"
    assert warning in run.ranks[0].stderr
    assert_on_curve(run, alone, [3, 4, 5, 6])


def test_what_whole_copies_saved_is_gone_on_with_by_shards(
    train: Callable[..., Any], alone: Any, tmp_path: Path
) -> None:
    name = "step-00000003"
    shutil.copytree(alone.folder / "checkpoints" / name, tmp_path / name)
    run = train(2, strategy="fsdp", resume_from=tmp_path)
    assert_on_curve(run, alone, [4, 5, 6])


def test_half_precision_of_a_classifier_and_nothing_to_offload_to(
    training: Training, built_in_shards: Callable[[str], Path]
) -> None:
    plan = {"model": "mlp", "epochs": 1, "batch_size_per_device": 32, "global_batch_size": 128}
    plan |= {"learning_rate": 0.1, "gradient_accumulation_steps": 2, "shards": built_in_shards("digits")}
    half = {"precision": "bf16", "strategy": "fsdp", "fsdp_cpu_offload": True}
    whole, sharded = training(2, **plan), training(2, **plan, **half)
    assert whole.ok, whole.errors
    assert sharded.ok, sharded.errors
    last = max(whole.losses)
    assert sharded.losses[1] == pytest.approx(whole.losses[1], rel=1e-2)
    assert sharded.losses[last] == pytest.approx(whole.losses[last], rel=5e-2)
    assert {tensor.dtype for tensor in exported(sharded).values()} == {torch.float32}


def errors(run: Any) -> list[list[str]]:
    """The lines of each rank, after checking that all failed alike and quietly."""
    for rank in run.ranks:
        assert rank.status == 2, run.errors
        assert rank.stderr.startswith("error: ")
        assert "Traceback" not in rank.stderr
    assert not (run.folder / "model").exists()
    return [rank.stderr.splitlines() for rank in run.ranks]


@pytest.mark.smoke
def test_a_model_that_names_no_blocks(
    training: Training,
    built_in_shards: Callable[[str], Path],
    snapshots: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    shutil.copytree(snapshots("train_ddp"), tmp_path / "code")
    source = "from torch import nn\ndef net(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    (tmp_path / "code" / "net.py").write_text(source)
    plan = {"model": "net.py:net", "batch_size_per_device": 32, "global_batch_size": 64}
    plan |= {"learning_rate": 0.1, "shards": built_in_shards("digits"), "strategy": "fsdp"}
    for message, advice in errors(training(2, code=tmp_path / "code", **plan)):
        assert message == "error: `strategy: fsdp` works block by block, but the model has none in `blocks`"
        assert "model.blocks = list(model.layers)" in advice


def test_a_disk_that_is_full_for_the_ranks_leaves_nothing(training: Training, text: Path) -> None:
    # A limit on the size of files is a disk that fills up while the parts, of 5 MB, are being written.
    # MLflow's database, which all tests share, is smaller.
    wide = LAW | {"gpt_width": 256, "gpt_layers": 1, "checkpoint_every_steps": 1, "strategy": "fsdp"}
    wide |= {"batch_size_per_device": 16, "shards": text}
    for lines in errors(training(2, largest_file_kib=4096, **wide)):
        assert lines[0] == "error: cannot write checkpoint `step-00000001`: file too large"
        assert lines[1] == "help: free space for it and resume; older checkpoints are whole"
