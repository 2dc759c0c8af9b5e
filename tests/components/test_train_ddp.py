"""train_ddp in real process groups, on real data: the same mathematics at any world size."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]

Training = Callable[..., Any]
RESUMED = "; start it again to resume from there"
# 10 steps of 256 samples, in micro-batches of 32 at any world size.
LAW = {"epochs": 2, "batch_size_per_device": 32, "global_batch_size": 256, "learning_rate": 0.4}
LAW |= {"reference_learning_rate": 0.05, "warmup_epochs": 1, "model": "cnn"}


@pytest.fixture(scope="session")
def digits(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("digits")


@pytest.fixture(scope="session")
def at_world_size(training: Training, digits: Path) -> Callable[[int], Any]:
    done: dict[int, Any] = {}

    def run(processes: int) -> Any:
        if processes not in done:
            steps = 256 // 32 // processes
            done[processes] = training(processes, shards=digits, gradient_accumulation_steps=steps, **LAW)
            assert done[processes].ok, done[processes].errors
        return done[processes]

    return run


def weights(run: Any, step: int) -> dict[str, Any]:
    path = run.folder / "checkpoints" / f"step-{step:08d}" / "state.pt"
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)["model"]
    return state


def assert_same_weights(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        first_, second_ = tensor.double(), second[name].double()
        difference = (first_ - second_).norm() / first_.norm().clamp_min(1e-12)
        assert difference < 1e-4, f"{name}: {difference:.2e}"


@pytest.mark.smoke
@pytest.mark.parametrize("processes", [2, 4])
def test_the_loss_of_every_step_is_the_same_at_any_world_size(
    at_world_size: Callable[[int], Any], processes: int
) -> None:
    alone, group = at_world_size(1), at_world_size(processes)
    assert sorted(alone.losses) == list(range(1, 11))
    for step, loss in alone.losses.items():
        assert group.losses[step] == pytest.approx(loss, rel=1e-4), f"step {step}"
    assert_same_weights(weights(alone, 10), weights(group, 10))


@pytest.mark.smoke
def test_evicted_killed_and_resumed(
    training: Training,
    digits: Path,
    at_world_size: Callable[[int], Any],
    fault: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    two = LAW | {"shards": digits, "gradient_accumulation_steps": 4}
    stopped = training(2, env=fault(1, 4, "SIGTERM"), checkpoint_every_steps=6, **two)
    assert [rank.status for rank in stopped.ranks] == [75, 75], stopped.errors
    step = max(stopped.losses)  # the signal came to one rank, at step 5; both take this one and no other
    assert 5 <= step <= 6
    said = f"stopped: checkpoint `step-{step:08d}` has all {step} steps that were taken"
    assert [rank.stderr.splitlines()[-1] for rank in stopped.ranks] == [said + RESUMED] * 2
    shutil.copytree(stopped.folder / "checkpoints", tmp_path / "own")

    alone = LAW | {"shards": digits, "gradient_accumulation_steps": 8}
    resumed = training(1, resume_from=stopped.folder / "checkpoints", **alone)
    assert resumed.ok, resumed.errors
    assert sorted(resumed.losses) == list(range(step + 1, 11))
    assert f"resuming from checkpoint step-{step:08d}: {step} steps done" in resumed.ranks[0].stdout
    assert_same_weights(weights(at_world_size(2), 10), weights(resumed, 10))

    killed = training(2, env=fault(1, 9, "SIGKILL"), checkpoints=tmp_path / "own", **two)
    assert sorted(rank.status for rank in killed.ranks) == [-9, 1], killed.errors
    finished = training(2, checkpoints=tmp_path / "own", **two)
    assert finished.ok, finished.errors
    for name, tensor in weights(at_world_size(2), 10).items():
        own = torch.load(tmp_path / "own" / "step-00000010" / "state.pt", weights_only=True)["model"]
        assert torch.equal(tensor, own[name]), name


@pytest.mark.smoke
def test_dropout_does_not_break_the_law(
    training: Training, digits: Path, tmp_path: Path, snapshot: Path
) -> None:
    code = with_model(
        snapshot,
        tmp_path,
        "def net(classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Dropout(0.5),\n"
        "                         nn.Linear(32, classes))\n",
    )
    common = {**LAW, "model": "mine/net.py:net", "learning_rate": 0.1, "epochs": 1}
    runs = [
        training(n, shards=digits, code=code, gradient_accumulation_steps=8 // n, **common) for n in (1, 2)
    ]
    assert all(run.ok for run in runs), runs[1].errors
    assert runs[0].losses == pytest.approx(runs[1].losses, rel=1e-4)


@pytest.mark.smoke
def test_synchronised_batch_normalisation_sees_all_ranks(
    training: Training, digits: Path, tmp_path: Path, snapshot: Path
) -> None:
    code = with_model(
        snapshot,
        tmp_path,
        "def net(classes):\n"
        "    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),\n"
        "                         nn.Linear(8 * 36, classes))\n",
    )
    common = {**LAW, "model": "mine/net.py:net", "learning_rate": 0.05, "epochs": 1, "shards": digits}
    common |= {"gradient_accumulation_steps": 1, "sync_batch_norm": True}
    alone = training(1, code=code, **(common | {"batch_size_per_device": 256}))
    group = training(2, code=code, **(common | {"batch_size_per_device": 128}))
    assert alone.ok, alone.errors
    assert group.ok, group.errors
    assert alone.losses == pytest.approx(group.losses, rel=1e-4)
    assert_same_weights(weights(alone, 5), weights(group, 5))


@pytest.mark.smoke
def test_a_model_is_served_without_our_code(
    at_world_size: Callable[[int], Any], digits: Path, serve: Callable[..., dict[str, Any]]
) -> None:
    run = at_world_size(2)
    predicted = serve(run.folder / "model", digits)
    assert predicted["accuracy"] >= 0.9  # after 10 steps
    assert predicted["shape"] == [359, 10]
    assert predicted["alone"] == [1, 10]
    assert predicted["sums"] == pytest.approx(1, abs=1e-5)
    assert predicted["metadata"]["global_batch_size"] == 256
    assert predicted["metadata"]["final"]["loss"] == pytest.approx(run.losses[10])
    last = json.loads((run.folder / "progress.jsonl").read_text().splitlines()[-1])
    assert (last["step"], last["total_steps"]) == (10, 10)
    plain = {name for name in last if not name.startswith("validation_")}
    of_training = {"step", "total_steps", "epoch", "loss", "learning_rate", "samples_per_second"}
    assert plain == of_training | {"time", "trained_seconds", "computed_seconds"}
    assert {"validation_loss", "validation_accuracy", "validation_auroc"} <= set(last)
    kept = sorted(path.name for path in (run.folder / "checkpoints").iterdir())
    assert kept == ["step-00000005", "step-00000010"]


def test_bytes_are_predicted_better_than_by_pairs(
    training: Training, built_in_shards: Callable[[str], Path], serve: Callable[..., dict[str, Any]]
) -> None:
    text = built_in_shards("python-source")
    run = training(
        2,
        shards=text,
        timeout=380,
        model="gpt",
        gpt_layers=2,
        gpt_width=96,
        optimizer="adamw",
        weight_decay=0.1,
        epochs=0.25,
        validate_every_epochs=0,  # the test measures the model itself
        warmup_epochs=0.05,
        batch_size_per_device=16,
        gradient_accumulation_steps=2,
        global_batch_size=64,
        reference_learning_rate=0.001,
        learning_rate=0.002,
    )
    assert run.ok, run.errors
    measured = serve(run.folder / "model", text)
    assert measured["alone"] == [1, 5, 256]
    assert measured["bits"] < measured["pairs"] - 0.3, measured


@pytest.fixture(scope="session")
def snapshot(snapshots: Callable[[str], Path]) -> Path:
    return snapshots("train_ddp")


def with_model(snapshot: Path, folder: Path, source: str) -> Path:
    """Copy the snapshot with a user's model file in it."""
    code = folder / "code"
    shutil.copytree(snapshot, code)
    (code / "mine").mkdir()
    (code / "mine" / "net.py").write_text(f"from torch import nn\n\n{source}")
    return code
