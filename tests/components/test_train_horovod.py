"""train_horovod under the real mpirun: the same training as DDP and as one process, and faults by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.horovod, pytest.mark.timeout(400)]

Training = Callable[..., Any]
# 5 steps of 256 samples in micro-batches of 32, with checkpoints after 2, 4 and 5 of them.
LAW = {"epochs": 1, "batch_size_per_device": 32, "global_batch_size": 256, "model": "cnn"}
LAW |= {"reference_learning_rate": 0.05, "learning_rate": 0.4, "warmup_epochs": 0.6, "timeout": 200}
LAW |= {"checkpoint_every_epochs": 0, "checkpoint_every_steps": 2, "keep_checkpoints": 5}
ADAMW = {"optimizer": "adamw", "weight_decay": 0.1, "max_gradient_norm": 0.5}
ADAMW |= {"reference_learning_rate": 0.002, "learning_rate": 0.004}


@pytest.fixture(scope="module")
def digits(built_in_shards: Callable[[str], Path]) -> Path:
    return built_in_shards("digits")


@pytest.fixture(scope="module")
def trained(training: Training, digits: Path) -> Callable[..., Any]:
    """A training of 5 steps, or what is left of one; each is run once."""
    done: dict[str, Any] = {}

    def run(component: str, processes: int, **values: Any) -> Any:
        key = f"{component} {processes} {values}"
        if key not in done:
            given = {"shards": digits, "gradient_accumulation_steps": 8 // processes} | LAW | values
            done[key] = training(processes, component=component, **given)
            assert done[key].ok, done[key].errors
        return done[key]

    return run


def checkpoint(run: Any, step: int) -> Path:
    path: Path = run.folder / "checkpoints" / f"step-{step:08d}"
    return path


def only(run: Any, step: int, folder: Path) -> Path:
    """A folder with one checkpoint of a run, as if it had stopped there."""
    shutil.copytree(checkpoint(run, step), folder / checkpoint(run, step).name)
    return folder


def assert_same(first: Any, second: Any) -> None:
    states = [torch.load(checkpoint(run, 5) / "state.pt", weights_only=True) for run in (first, second)]
    mine, other = (state["model"] for state in states)
    assert mine.keys() == other.keys()
    for name, tensor in mine.items():
        difference = (tensor.double() - other[name].double()).norm() / tensor.double().norm().clamp_min(1e-12)
        assert difference < 1e-4, f"{name}: {difference:.2e}"


@pytest.mark.smoke
def test_ddp_horovod_and_one_process_lose_alike_at_every_step(trained: Callable[..., Any]) -> None:
    alone = trained("train_horovod", 1)  # which needs neither MPI nor Horovod
    assert sorted(alone.losses) == [1, 2, 3, 4, 5]
    for component in ("train_ddp", "train_horovod"):
        group = trained(component, 2)
        assert group.losses == pytest.approx(alone.losses, rel=1e-4), component
        assert_same(alone, group)


def test_adamw_with_clipping_is_the_same_too(trained: Callable[..., Any]) -> None:
    alone, group = trained("train_ddp", 1, **ADAMW), trained("train_horovod", 2, **ADAMW)
    assert group.losses == pytest.approx(alone.losses, rel=1e-4)
    assert_same(alone, group)


def test_evicted_and_resumed_to_the_bit(
    trained: Callable[..., Any], training: Training, digits: Path, fault: Callable[..., dict[str, str]]
) -> None:
    two = LAW | {"component": "train_horovod", "shards": digits, "gradient_accumulation_steps": 4}
    stopped = training(2, env=fault(1, 1, "SIGTERM"), **two)
    assert stopped.ranks[0].status == 75, stopped.errors
    assert "stopped: checkpoint `step-00000002` has all 2 steps" in stopped.ranks[0].stderr
    finished = training(2, checkpoints=stopped.folder / "checkpoints", **two)
    assert finished.ok, finished.errors
    path = Path("checkpoints") / "step-00000005" / "state.pt"
    own = torch.load(stopped.folder / path, weights_only=True)
    never = torch.load(trained("train_horovod", 2).folder / path, weights_only=True)
    for name, tensor in never["model"].items():
        assert torch.equal(tensor, own["model"][name]), name


def test_a_checkpoint_of_ddp_goes_on_with_horovod(trained: Callable[..., Any], tmp_path: Path) -> None:
    before = trained("train_ddp", 2)
    after = trained("train_horovod", 2, resume_from=only(before, 2, tmp_path))
    assert "resuming from checkpoint step-00000002: 2 steps done" in after.ranks[0].stdout
    assert after.losses == pytest.approx({step: before.losses[step] for step in (3, 4, 5)}, rel=1e-4)
    assert_same(before, after)


def test_a_checkpoint_of_horovod_goes_on_alone_with_ddp(trained: Callable[..., Any], tmp_path: Path) -> None:
    before = trained("train_horovod", 2, **ADAMW)
    after = trained("train_ddp", 1, resume_from=only(before, 4, tmp_path), **ADAMW)
    assert after.losses == pytest.approx({5: before.losses[5]}, rel=1e-4)
    assert_same(before, after)


def test_the_strategy_does_what_the_papers_say(
    mpirun: Callable[[int], list[str]], warm: Callable[..., list[str]]
) -> None:
    script = Path(__file__).with_name("horovod_ranks.py")
    done = subprocess.run(
        [*mpirun(2), *warm(), sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 6


def test_a_rank_that_is_killed_ends_the_others(
    training: Training, digits: Path, snapshots: Callable[[str], Path], tmp_path: Path
) -> None:
    code = tmp_path / "code"
    shutil.copytree(snapshots("train_horovod"), code)
    (code / "mine.py").write_text(
        "import os, signal\n"
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    steps = 0\n"
        "    def forward(self, x):\n"
        "        Net.steps += self.training\n"
        "        if Net.steps == 3 and os.environ.get('OMPI_COMM_WORLD_RANK') == '1':\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().forward(x)\n"
        "def net(classes):\n"
        "    return Net(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    values = LAW | {"model": "mine.py:net", "gradient_accumulation_steps": 4, "shards": digits}
    run = training(2, component="train_horovod", code=code, **values)
    assert run.ranks[0].status != 0
    assert "signal 9" in run.ranks[0].stderr
    assert not [found for found in psutil.process_iter(["cmdline"]) if str(run.folder) in str(found.info)]


def test_ranks_that_were_told_different_things_are_named(
    training: Training, digits: Path, snapshots: Callable[[str], Path], tmp_path: Path
) -> None:
    code = tmp_path / "code"
    shutil.copytree(snapshots("train_horovod"), code)
    (code / "train.py").rename(code / "own.py")
    told = "sys.argv += ['--seed', os.environ['OMPI_COMM_WORLD_RANK']]"
    (code / "train.py").write_text(f"import os, sys, own\n{told}\nown.run_main(own.main)\n")
    values = LAW | {"gradient_accumulation_steps": 4, "shards": digits}
    run = training(2, component="train_horovod", code=code, **values)
    assert run.ranks[0].status == 2
    assert "error: rank 1 was started with `seed` 1, but rank 0 with 0" in run.ranks[0].stderr


def test_what_is_wrong_is_one_sentence(training: Training, digits: Path) -> None:
    common = LAW | {"shards": digits, "component": "train_horovod", "gradient_accumulation_steps": 4}
    for processes, values, message in (
        (2, {"world_size": 8}, "the plan is for 8 processes but the launcher started 2"),
        (2, {"reduction": "adasum", "precision": "fp16"}, "`reduction: adasum` cannot be used with"),
        (
            3,
            {"reduction": "adasum", "global_batch_size": 384},
            "`reduction: adasum` combines ranks in pairs, and 3 is not a power of 2",
        ),
    ):
        run = training(processes, **common | {"world_size": processes} | values)
        assert run.ranks[0].status == 2
        assert f"error: {message}" in run.ranks[0].stderr  # mpirun may end the others before they say so
        assert "Traceback" not in run.ranks[0].stderr
