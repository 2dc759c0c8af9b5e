"""What trainers report of the time of their ranks, for the page of a run."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wstrain.tracking.step_recorder import MAX_TIMED_RANKS, MAX_TIMES, RANK_TIMES, Progress, StepRecorder


@dataclass
class Ranks:
    """Ranks that compute for known times; each step takes a tenth of a second."""

    computed: Sequence[float]
    is_main: bool = True

    def average(
        self, losses: Sequence[Any], seconds: float, compute_seconds: float
    ) -> tuple[list[float], float, list[float]]:
        del seconds, compute_seconds
        return list(losses), 0.1, list(self.computed)

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def title(self, rank: int) -> str:
        return f"rank {rank}"


def record(folder: Path, ranks: Ranks, steps: int = 6) -> list[dict[str, Any]]:
    path = folder / "progress.jsonl"
    recorder = StepRecorder(ranks, steps, steps, 8, None, Progress(str(path)))
    for step in range(steps):
        recorder.step(step, 1.0, 0.1)
    recorder.finish()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_times_of_ranks_add_up_over_the_training(tmp_path: Path) -> None:
    began = time.time()
    records = record(tmp_path, Ranks((0.06, 0.08)))
    assert records[-1]["trained_seconds"] == pytest.approx(0.6)
    assert records[-1]["computed_seconds"] == pytest.approx([0.36, 0.48])
    assert all(began - 1 < each["time"] < time.time() + 1 for each in records)


@pytest.mark.parametrize("computed", [(0.0, 0.0), (0.1,) * (MAX_TIMED_RANKS + 1)])
def test_times_that_are_not_measured_or_too_many_are_left_out(
    tmp_path: Path, computed: tuple[float, ...]
) -> None:
    assert "computed_seconds" not in record(tmp_path, Ranks(computed))[-1]


class Lines:
    """A tracker that keeps the files of lines that it is given."""

    def __init__(self) -> None:
        self.files: dict[str, list[dict[str, Any]]] = {}

    def log(self, step: int, values: Any, *, always: bool = False) -> None:
        """Take the metrics of a step."""

    def log_lines(self, name: str, records: Sequence[dict[str, Any]]) -> None:
        self.files[name] = list(records)


def track(ranks: Ranks, windows: int) -> dict[str, list[dict[str, Any]]]:
    lines = Lines()
    recorder = StepRecorder(ranks, windows, windows, 8, lines, Progress(None))  # type: ignore[arg-type]
    for step in range(windows):
        recorder.step(step, 1.0, 0.1)
        recorder.report_held()
    recorder.finish()
    return lines.files


def test_the_times_of_ranks_are_logged_at_the_end() -> None:
    (kept,) = track(Ranks((0.06, 0.08)), 10).values()
    assert [each["step"] for each in kept] == list(range(1, 11))
    assert kept[-1]["computed_seconds"] == pytest.approx([0.6, 0.8])
    assert kept[-1]["trained_seconds"] == pytest.approx(1.0)


def test_a_long_training_keeps_evenly_many_of_its_times() -> None:
    kept = track(Ranks((0.06, 0.08)), 5 * MAX_TIMES)[RANK_TIMES]
    assert MAX_TIMES // 2 <= len(kept) <= MAX_TIMES
    steps = [each["step"] for each in kept]
    assert {after - before for before, after in itertools.pairwise(steps)} == {8}


def test_times_that_are_not_measured_are_no_file() -> None:
    assert track(Ranks((0.0, 0.0)), 3) == {}
