"""What a rank tells of itself, how long it may take, and whom the others wait for."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wstrain.health import memory, non_finite
from wstrain.health.heartbeat import Heartbeat, HeartbeatRecord, Phase, parse_record, read_records
from wstrain.health.straggler import StragglerDetector
from wstrain.health.watchdog import (
    MIN_SECONDS,
    OTHER_SECONDS,
    allowed_seconds,
    describe_hang,
    find_absent_ranks,
)


def beat(rank: int, done: int, phase: Phase = Phase.COMPUTING, micro: int = 0) -> HeartbeatRecord:
    now = time.monotonic()
    return HeartbeatRecord(rank, 4, 100 + rank, phase, micro, done, now - 61, 5, now, 60.0, gave_up=False)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    heartbeat = Heartbeat(3, 4, str(tmp_path / "beats"))
    heartbeat.note_start(10, 2)
    heartbeat.mark(Phase.COMPUTING, 1)
    heartbeat.tick(60.0)
    found = read_records(tmp_path / "beats")[3]
    assert (found.rank, found.world_size, found.pid) == (3, 4, os.getpid())
    assert (found.done, found.phase, found.micro, found.limit) == (10, Phase.COMPUTING, 1, 60.0)
    assert found.description == "computing micro-batch 2 of step 11"
    heartbeat.note_gradients()
    assert read_records(tmp_path / "beats")[3].description == "waiting in the gradient exchange of step 11"
    heartbeat.note_step(11)
    assert read_records(tmp_path / "beats")[3].done == 11


def test_foreign_and_torn_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rank-0.beat").write_bytes(b"WSB1")
    (tmp_path / "rank-1.beat").write_bytes(b"x" * 200)
    (tmp_path / "rank-2.beat").write_bytes(b"WSB1" + b"\xff" * 200)
    assert read_records(tmp_path) == {}
    assert read_records(tmp_path / "nowhere") == {}


def test_a_folder_that_cannot_be_made_ends_no_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    heartbeat = Heartbeat(0, 1, str(tmp_path / "file" / "beats"))
    heartbeat.note_step(1)
    found = parse_record(heartbeat.record)
    assert found is not None
    assert found.done == 1


def test_a_mark_costs_microseconds(tmp_path: Path) -> None:
    heartbeat = Heartbeat(0, 1, str(tmp_path))
    began = time.perf_counter()
    for step in range(2000):
        for phase in (Phase.COMPUTING, Phase.UPDATING, Phase.REPORTING, Phase.SAVING):
            heartbeat.mark(phase)
        heartbeat.note_step(step)
    assert (time.perf_counter() - began) / 2000 < 100e-6  # 5 µs on an idle machine


def test_only_the_last_micro_batch_is_followed_by_the_exchange() -> None:
    heartbeat = Heartbeat(0, 2)
    heartbeat.note_start(0, 2)
    heartbeat.mark(Phase.COMPUTING, 0)
    heartbeat.note_gradients()
    assert (heartbeat.phase, heartbeat.take_compute_seconds()) == (Phase.COMPUTING, 0.0)
    heartbeat.mark(Phase.COMPUTING, 1)
    heartbeat.note_gradients()
    assert heartbeat.phase == Phase.EXCHANGING
    assert heartbeat.take_compute_seconds() > 0
    assert heartbeat.take_compute_seconds() == 0.0


def test_what_a_rank_may_take_follows_from_its_own_steps() -> None:
    assert allowed_seconds(Phase.EXCHANGING, [0.1, 0.2]) == MIN_SECONDS
    assert allowed_seconds(Phase.EXCHANGING, [0.1, 30.0]) == 300.0
    assert allowed_seconds(Phase.COMPUTING, []) == OTHER_SECONDS  # the first step compiles
    assert allowed_seconds(Phase.SAVING, [0.1]) == OTHER_SECONDS
    assert allowed_seconds(Phase.SAVING, [400.0]) == 4000.0
    assert allowed_seconds(Phase.REPORTING, [0.1], 5.0) == 5.0
    assert allowed_seconds(Phase.LOADING, [], 5.0) == 50.0
    assert allowed_seconds(Phase.SERVING, [0.1]) == allowed_seconds(Phase.OVER, [0.1]) == 0.0


def test_who_is_behind_is_who_the_others_wait_for() -> None:
    waiting = {rank: beat(rank, 7, Phase.EXCHANGING) for rank in range(4)}
    assert find_absent_ranks(waiting | {2: beat(2, 7)}, (), 4) == [2]
    assert find_absent_ranks(waiting | {2: beat(2, 6, Phase.SAVING)}, (), 4) == [2]
    assert find_absent_ranks(waiting, (), 4) == []  # all at one place: nobody can tell
    assert find_absent_ranks(waiting, {3}, 4) == [3]  # but a process that does not run is to blame
    assert find_absent_ranks({0: waiting[0], 1: waiting[1]}, (), 4) == [2, 3]
    assert find_absent_ranks({0: waiting[0]}, (), 4) == []


def test_the_report_says_what_every_rank_was_doing_and_ends_in_one_error() -> None:
    found = {0: beat(0, 7, Phase.EXCHANGING, 1), 1: beat(1, 7, Phase.COMPUTING, 1)}
    lines = list(describe_hang(found, {1}, 2, found[0]))
    assert lines[1:3] == [
        "rank 0: 7 steps done, waiting in the gradient exchange of step 8",
        "rank 1: 7 steps done, computing micro-batch 2 of step 8; its process does not run",
    ]
    assert lines[3] == (
        "error: rank 1 did not arrive: no progress for 61 s, last seen computing micro-batch 2 of step 8;"
        " its process does not run"
    )
    assert lines[4].startswith("help: ")


def test_a_slow_rank_is_reported_once_when_it_is_certain() -> None:
    straggler = StragglerDetector(least_seconds=0.0)
    found = [straggler.note([0.1, 0.1, 0.18, 0.1], 30) for _ in range(5)]
    assert [each is not None for each in found] == [False, False, True, False, False]
    slow = found[2]
    assert slow is not None
    assert (slow.rank, round(slow.ratio, 2)) == (2, 1.8)


def test_ranks_that_take_turns_at_being_slow_are_no_stragglers() -> None:
    straggler = StragglerDetector(least_seconds=0.0)
    for observation in range(12):
        busy = [0.1, 0.1, 0.1, 0.1]
        busy[observation % 4] = 0.3
        assert straggler.note(busy, 30) is None


@given(st.lists(st.floats(0.05, 0.06), min_size=2, max_size=8))
def test_small_differences_are_no_news(busy: list[float]) -> None:
    straggler = StragglerDetector(least_seconds=0.0)
    assert all(straggler.note(busy, 30) is None for _ in range(5))
    assert straggler.note([0.0, 5.0], 30) is None  # nobody measures


def test_a_loss_that_is_no_number_names_step_ranks_rate_and_checkpoint() -> None:
    bad = non_finite.BadStep(13, float("nan"), 0.5, [1], 4)
    error = non_finite.non_finite_error(bad, "step-00000010")
    assert error.message == "the loss of step 13 is nan because of rank 1, at learning rate 0.5"
    assert error.help is not None
    assert error.help.startswith("the last good checkpoint is `step-00000010`; lower the learning rate")
    everywhere = non_finite.non_finite_error(non_finite.BadStep(1, float("inf"), 1e3, [0, 1], 2), None)
    assert "is inf on every rank, at learning rate 1000" in everywhere.message


def test_the_last_checkpoint_is_the_one_with_most_steps(tmp_path: Path) -> None:
    for name in ("step-00000009", "step-00000100", ".writing-step-00000200", "best"):
        (tmp_path / name).mkdir()
    assert non_finite.last_checkpoint_name(tmp_path) == "step-00000100"
    assert non_finite.last_checkpoint_name(tmp_path / "nowhere") is None


def test_what_allocators_say_is_understood() -> None:
    asked = memory.requested_bytes
    cuda = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.10 GiB"
    cpu = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 40000000000 bytes. Error code 12"
    numpy = "Unable to allocate 7.45 GiB for an array with shape (1000000000,) and data type float64"
    tensorflow = "OOM when allocating tensor with shape[1000,1000,1000] and type float on device:CPU:0"
    assert asked(cuda) == 20 << 30
    assert asked(cpu) == 40_000_000_000
    assert asked(numpy) == int(7.45 * (1 << 30))
    assert asked(tensorflow) == 4_000_000_000
    assert all(memory.is_out_of_memory(RuntimeError(text)) for text in (cuda, cpu, tensorflow))
    assert not memory.is_out_of_memory(RuntimeError("shapes do not match"))


@given(st.integers(1, 4096), st.floats(0.01, 0.5))
def test_a_smaller_batch_divides_the_batch_and_fits_the_share(micro: int, share: float) -> None:
    smaller = memory.smaller_batch(micro, share)
    assert micro % smaller == 0
    assert smaller == 1 or smaller <= micro * share
