"""What trainers report of the time of their ranks, for the page of a run."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wstrain.tracking.step_recorder import MAX_TIMED_RANKS, Progress, StepRecorder


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
