"""Of several processes that failed, the one that failed first is named, whatever order they were heard in."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.azureml.model import Component
from worldsize.running.engine.failures import (
    count_oom_kills,
    describe_followers,
    explain_failure,
    explain_oom_kill,
    failure_signature,
    find_cause,
)
from worldsize.running.launch.group import EndedProcess
from worldsize.running.model.process import Process
from worldsize.running.model.task import Task, Text

RANKS = [Process(f"rank-{rank}", rank, rank, 0, ("true",), {}) for rank in range(4)]
GONE = ["RuntimeError: [/pytorch/third_party/gloo/pair.cc:547] Connection closed by peer [127.0.0.1]:2001"]
OURS = ["error: another rank has gone, so this one stops", "help: its own log says why"]
NCCL = ["torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3."]
VALUE = ["Traceback (most recent call last):", "ValueError: bad sample"]


def judged(*ended: tuple[int, int, bool], **tails: list[str]) -> tuple[int | None, list[int | None], str]:
    """Rank, status and whether told, in the order in which they were heard of."""
    events = [EndedProcess(RANKS[rank], status, told=told) for rank, status, told in ended]
    found = find_cause(events, lambda process: tails.get(process.name.replace("-", ""), []), RANKS)
    assert found is not None
    return found.cause.process.rank, [each.rank for each in found.followers], found.message


def test_who_lost_a_connection_follows_who_was_killed_even_if_heard_of_first() -> None:
    assert judged((0, 1, False), (1, -signal.SIGKILL, False), rank0=GONE) == (
        1, [0], "rank 1 was killed by SIGKILL",
    )  # fmt: skip


@pytest.mark.parametrize("said", [GONE, OURS, NCCL])
def test_an_exception_comes_before_what_others_say_of_lost_peers(said: list[str]) -> None:
    cause, followers, message = judged(
        (0, 1, False),
        (3, -6, False),
        (2, 1, False),
        (1, 1, True),
        rank0=said,
        rank3=NCCL,
        rank2=VALUE,
        rank1=said,
    )
    assert (cause, followers, message) == (2, [0, 3, 1], "rank 2 ended with exit status 1")


def test_what_was_asked_to_end_is_no_cause() -> None:
    assert judged((1, -15, True), (0, 3, False))[0] == 0


def test_among_equals_the_first_is_named() -> None:
    assert judged((3, 5, False), (0, 4, False))[0] == 3
    assert judged((3, 1, False), (0, 1, False), rank3=GONE, rank0=GONE)[0] == 3


def test_mpirun_fails_because_of_a_rank() -> None:
    launcher = Process("mpirun", None, 0, 0, ("mpirun",), {}, members=tuple(RANKS))
    events = [EndedProcess(launcher, 1), EndedProcess(RANKS[2], -11), EndedProcess(RANKS[1], 1)]
    found = find_cause(events, lambda process: GONE if process.rank == 1 else [], RANKS)
    assert found is not None
    assert (found.cause.process.rank, [each.rank for each in found.followers]) == (2, [1])


def test_a_hang_is_the_fault_of_who_did_not_arrive() -> None:
    error = "error: rank 1 did not arrive: no progress for 61 s, last seen computing micro-batch 1 of step 8"
    cause, followers, message = judged((0, 124, False), (1, 124, True), rank0=[error], rank1=[error])
    assert (cause, followers) == (1, [])
    assert message == error.removeprefix("error: ")


def test_a_server_that_was_ended_and_an_end_without_fault_are_no_failures() -> None:
    server = Process("ps-0", 2, 0, 0, ("true",), {}, serves=True)
    assert (
        find_cause([EndedProcess(RANKS[0], 0), EndedProcess(server, -15, told=True)], lambda _: [], RANKS)
        is None
    )


def test_the_others_are_counted_in_words() -> None:
    assert describe_followers(RANKS[:3]) == "3 other ranks failed because of it"
    assert (
        describe_followers([Process("worker-1", 1, 0, 0, ("true",), {})])
        == "1 other worker failed because of it"
    )


def test_two_failures_are_the_same_if_only_numbers_differ() -> None:
    one = failure_signature("rank 1 ended with exit status 1", ["KeyError: 0x7f12 at 17"])
    assert one == failure_signature("rank 2 ended with exit status 1", ["KeyError: 0x8a00 at 3"])
    assert one != failure_signature("rank 2 ended with exit status 1", ["ValueError: 3"])


def test_a_process_killed_for_memory_is_told_which_batch_is_half(tmp_path) -> None:
    counter = tmp_path / "vmstat"
    counter.write_text("pgfault 7\noom_kill 3\n")
    assert count_oom_kills(counter, tmp_path / "none") == 3
    inputs = {
        "batch_size_per_device": Text(24),
        "gradient_accumulation_steps": Text(2),
        "predicted_memory_bytes": Text(3 << 30),
    }
    component = Component(None, "command", None, None, {}, {})
    said = explain_oom_kill(Task("train", component, Path(), inputs=inputs))
    assert "3.0 GiB were planned for each process" in said[0]
    assert "`batch_size_per_device` to 12 and `gradient_accumulation_steps` to 4" in said[1]


def test_a_thread_that_outlives_its_process_is_explained(tmp_path: Path) -> None:
    """Gloo frees a tensor while Python ends: the process is aborted after its training has ended."""
    (tmp_path / "rank-1.log").write_text("epoch 3\nterminate called without an active exception\n")
    ended = [EndedProcess(RANKS[1], -signal.SIGABRT, told=False)]
    group: Any = SimpleNamespace(ended=ended, ranks=RANKS, lost=None)
    task: Any = None  # which only other failures are explained by
    failure = explain_failure(group, task, tmp_path, (), blame=None, out_of_memory=False)
    assert "SIGABRT" in failure.message
    assert "write `import torch.distributed.nn` above" in failure.notes[0]
