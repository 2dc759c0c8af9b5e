"""The stream of micro-batches: steps that are read at once give the same as single reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.smoke]

from wstrain.data.sampler import GlobalBatchSampler  # noqa: E402
from wstrain_torch import data  # noqa: E402

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
