from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wssources.planned_rows import validation_rows
from wstrain.data.step_counts import steps_per_epoch, total_steps, warmup_steps

ROWS = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("rows", "batch", "steps"), [(1437, 256, 5), (256, 256, 1), (255, 256, 0), (0, 1, 0)]
)
def test_an_epoch_drops_the_incomplete_batch(rows: int, batch: int, steps: int) -> None:
    assert steps_per_epoch(rows, batch) == steps


@pytest.mark.parametrize(("epochs", "steps"), [(12, 60), (0.1, 1), (0.5, 3), (0.3, 2), (0.09, 0)])
def test_epochs_become_steps_rounding_half_up(epochs: float, steps: int) -> None:
    assert total_steps(epochs, 5) == steps
    assert warmup_steps(epochs, 5) == steps


@pytest.mark.parametrize(
    ("rows", "fraction", "held_out"),
    [
        ([1797], 0.2, 359),
        ([10, 10], 0.25, 6),
        ([1, 2, 3], 0.01, 2),
        ([1], 0.9, 0),
        ([2], 0.99, 1),
        ([5], 0, 0),
    ],
)
def test_each_class_keeps_a_row_on_either_side(rows: list[int], fraction: float, held_out: int) -> None:
    assert validation_rows(rows, fraction) == held_out


@given(st.lists(st.integers(0, 10**6)), st.floats(0, 0.999))
def test_the_split_is_additive_and_leaves_rows_to_train(rows: list[int], fraction: float) -> None:
    held_out = [validation_rows([count], fraction) for count in rows]
    assert validation_rows(rows, fraction) == sum(held_out)
    assert all(taken < count or count == 0 for taken, count in zip(held_out, rows, strict=True))


@given(ROWS, st.integers(1, 10**6))
def test_steps_never_use_more_rows_than_there_are(rows: int, batch: int) -> None:
    steps = steps_per_epoch(rows, batch)
    assert steps * batch <= rows < (steps + 1) * batch


@pytest.mark.parametrize(
    "call",
    [
        lambda: steps_per_epoch(-1, 1),
        lambda: steps_per_epoch(1, 0),
        lambda: total_steps(-1, 1),
        lambda: total_steps(math.inf, 1),
        lambda: warmup_steps(math.nan, 1),
        lambda: warmup_steps(1, -1),
        lambda: validation_rows([1], 1.0),
        lambda: validation_rows([-1], 0.5),
    ],
)
def test_impossible_numbers_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"must|at least"):
        call()  # type: ignore[operator]
