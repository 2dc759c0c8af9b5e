"""The stream of micro-batches: steps that are read at once give the same as single reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

from wstrain.data.sampler import GlobalBatchSampler  # noqa: E402
from wstrain_torch import compute_clock, data  # noqa: E402

ROWS = 103


class CountingReader:
    """Rows whose values are their numbers; counts the reads."""

    reads = 0

    def gather(self, indices: Any) -> tuple[Any, Any]:
        self.reads += 1
        return np.repeat(indices[:, None], 3, axis=1).astype(np.float32), indices % 5


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_read_at_once_are_the_micro_batches(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> tuple[list[Any], int]:
        reader = CountingReader()
        loader = data.BatchLoader(
            reader,  # type: ignore[arg-type]
            GlobalBatchSampler(ROWS, 24, seed=3),
            data.make_task("classification", (3,), "float32", 5),
            rank=1, world_size=2, accumulation=4, device=torch.device("cpu"), workers=workers,
        )  # fmt: skip
        return list(loader.stream(2, 9)), reader.reads

    at_once, reads = read()
    monkeypatch.setattr(data, "MAX_STEP_VALUES", 0)
    one_by_one, more_reads = read()
    assert (reads, more_reads) == (7, 28)
    assert [len(inputs) for inputs, _ in at_once] == [3] * 28
    for (inputs, targets), (other, wanted) in zip(at_once, one_by_one, strict=True):
        assert torch.equal(inputs, other)
        assert torch.equal(targets, wanted)


@pytest.mark.parametrize(("waiting", "warns"), [(0.06, True), (0.02, False)])
def test_a_gpu_that_waits_for_data_is_told_once(
    monkeypatch: pytest.MonkeyPatch, waiting: float, warns: bool
) -> None:
    now = 0.0

    class Event:
        """An event of a GPU that does at once whatever the host asks of it."""

        def record(self) -> None:
            self.at = now

        def query(self) -> bool:
            return True

        def elapsed_time(self, other: Event) -> float:
            return 1000 * (other.at - self.at)

    def load() -> Iterator[data.Batch]:
        nonlocal now
        while True:
            now += waiting
            yield torch.zeros(1), torch.zeros(1)

    monkeypatch.setattr(compute_clock, "_event", Event)
    monkeypatch.setattr(compute_clock.time, "perf_counter", lambda: now)
    monkeypatch.setattr(compute_clock.os, "sched_getaffinity", lambda _: range(16))
    warnings: list[str] = []
    clock = compute_clock.LoaderClock(load(), 1, warnings.append)
    for _ in range(2 * compute_clock.EVERY_STEPS * compute_clock.TIMED_BATCHES):
        next(clock)
        now += 1 - waiting
    sentence = "the GPU waits for data for 6% of each step, with `loader_workers` 1: raise it"
    assert warnings == [sentence] * warns
