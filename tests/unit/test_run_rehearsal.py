"""A rehearsal's faults follow from its seed, and what they cost is held against the promise."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from worldsize.azureml.model import Component
from worldsize.lab.emulation import read_emulation
from worldsize.lab.faults import (
    EARLIEST,
    LATEST,
    MAX_FAULTS,
    MIN_FAULTS,
    InjectedFault,
    PlannedFault,
    describe_schedule,
    draw_faults,
    saved_step,
)
from worldsize.running.model.options import RunOptions
from worldsize.running.model.task import Task


@given(st.integers(), st.integers(1, 16), st.integers(0, 4))
def test_faults_are_drawn_from_the_seed_in_order_and_hit_what_is_there(
    seed: int, ranks: int, nodes: int
) -> None:
    faults = draw_faults(seed, "train", ranks, nodes)
    assert faults == draw_faults(seed, "train", ranks, nodes)
    assert MIN_FAULTS <= len(faults) <= MAX_FAULTS
    shares = [fault.share for fault in faults]
    assert shares == sorted(shares)
    assert EARLIEST <= shares[0] <= shares[-1] <= LATEST
    assert {"kill", "terminate", "stop", "slow"} & {fault.kind for fault in faults[:4]}
    for fault in faults:
        assert all(0 <= rank < ranks for rank in fault.ranks)
        assert bool(fault.ranks) == (fault.kind != "cut")
        assert fault.kind != "cut" or (nodes > 1 and fault.node < nodes)


def test_every_kind_comes_once_before_any_comes_twice() -> None:
    for seed in range(20):
        assert len({fault.kind for fault in draw_faults(seed, "train", 2)[:4]}) == 4
        assert len({fault.kind for fault in draw_faults(seed, "train", 2, nodes=2)[:4]}) == 4


def test_the_schedule_is_told_before_anything_happens() -> None:
    fault = PlannedFault("stop", 0.34, (1,), 2.5)
    assert list(describe_schedule(7, {"train": (fault,)})) == [
        "chaos 7: train: 1 fault",
        "  at  34% of the training: stop rank 1 for 2.5 s (SIGSTOP)",
    ]


def test_a_rehearsal_without_a_step_to_rehearse_is_refused() -> None:
    component = Component(None, "command", None, None, {}, {})
    keeps = Task("train", component, Path(), outputs={"checkpoints": "uri_folder"})
    forgets = Task("use", component, Path(), outputs={"model": "uri_folder"})
    asked = RunOptions(chaos=7)
    assert read_emulation(asked, {"train": keeps, "use": forgets}, {})[1] == []
    (problem,) = read_emulation(asked, {"use": forgets}, {})[1]
    assert problem.message == "`--chaos 7` rehearses faults of steps that keep checkpoints, and no step does"
    assert "`checkpoints: {type: uri_folder}`" in (problem.help or "")
    assert read_emulation(RunOptions(), {"use": forgets}, {})[1] == []


def test_the_promise_is_the_last_checkpoint_that_was_on_the_disk() -> None:
    hit = InjectedFault(PlannedFault("kill", 0.5, (1,)), "train", 1, reached=34, saved=30, since=0.0)
    assert hit.pending
    assert not hit.is_promise_kept
    hit.resumed = 30
    assert (hit.lost, hit.allowed_loss, hit.is_promise_kept) == (4, 4, True)
    hit.resumed = 25
    assert (hit.lost, hit.is_promise_kept) == (9, False)
    assert InjectedFault(
        PlannedFault("slow", 0.5, (1,), 3.0), "train", 1, reached=34, saved=30, since=0.0
    ).is_promise_kept


def test_only_whole_checkpoints_count(tmp_path: Path) -> None:
    for name in ("step-00000020", "step-00000005", ".writing-step-00000030"):
        (tmp_path / name).mkdir()
    assert saved_step(tmp_path) == 20
    assert saved_step(tmp_path / "nowhere") == 0
