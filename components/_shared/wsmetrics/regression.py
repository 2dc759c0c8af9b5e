"""Metrics of predicted numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmetrics.exact_sum import UNIT_BITS, ExactSum, divide, square_exactly

Array = npt.NDArray[Any]


class RegressionMetrics:
    """`loss`, `mse`, `rmse`, `mae` and `r2` of targets in their own unit, each the mean over targets.

    The loss is the mean squared error in units of each target's standard deviation, as trainers minimise it.
    RMSE is the mean of each target's root, as scikit-learn's `root_mean_squared_error`. R² is as scikit-learn
    defines `r2_score`: for a target that is the same in all rows it is 1 if all predictions are right, else
    0; with fewer than two rows there is none.

    Args:
        targets: number of targets.
        deviation: standard deviation of each target over the training rows; the default is 1.
    """

    def __init__(self, targets: int, *, deviation: Sequence[float] = ()) -> None:
        self._rows = 0
        self._deviation = tuple(deviation) or (1.0,) * targets
        self._sums = [_Sums() for _ in range(targets)]

    def add(self, outputs: Any, targets: Any) -> None:
        """Add predictions and targets, both `[n, targets]`; of one target also `[n]`."""
        shape = (-1, len(self._sums))
        wanted = np.asarray(targets, np.float64).reshape(shape)
        predicted = np.asarray(outputs, np.float64).reshape(shape)
        self._rows += len(wanted)
        for column, sums in enumerate(self._sums):
            sums.add(predicted[:, column], wanted[:, column])

    def state(self) -> Any:
        """Return what another object's `merge` takes."""
        return self._rows, self._sums

    def merge(self, states: Iterable[Any]) -> None:
        """Add the rows of other objects; in which order does not matter."""
        for rows, sums in states:
            self._rows += rows
            for own, other in zip(self._sums, sums, strict=True):
                own.merge(other)

    def compute(self) -> dict[str, float]:
        """Return the metrics; only `rows` if there are none."""
        if not self._rows:
            return {"rows": 0.0}
        each = self.of_each_target()
        scaled = [value / scale**2 for value, scale in zip(each["mse"], self._deviation, strict=True)]
        metrics = {"loss": _mean(scaled)}
        metrics |= {name: _mean(values) for name, values in each.items() if values}
        return metrics | {"rows": float(self._rows)}

    def of_each_target(self) -> dict[str, list[float]]:
        """Return `mse`, `rmse`, `mae` and `r2` of each target."""
        mse = [sums.squares.divided(self._rows) for sums in self._sums]
        return {
            "mse": mse,
            "rmse": [math.sqrt(value) for value in mse],
            "mae": [sums.magnitudes.divided(self._rows) for sums in self._sums],
            "r2": [sums.r2(self._rows) for sums in self._sums] if self._rows > 1 else [],
        }


class _Sums:
    """Sums over one target's rows: of its values y and their squares, of errors squared and absolute."""

    def __init__(self) -> None:
        self.squares, self.magnitudes = ExactSum(), ExactSum()
        self._values, self._value_squares = ExactSum(), ExactSum()

    def add(self, predicted: Array, wanted: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # what has no number is NaN or infinite
            errors = wanted - predicted
            self.squares.add(errors * errors)
            self.magnitudes.add(np.abs(errors))
            self._values.add(wanted)
            for part in square_exactly(wanted):
                self._value_squares.add(part)

    def merge(self, other: _Sums) -> None:
        self.squares.merge(other.squares)
        self.magnitudes.merge(other.magnitudes)
        self._values.merge(other._values)
        self._value_squares.merge(other._value_squares)

    def r2(self, rows: int) -> float:
        """Return 1 - Σ(y - prediction)² / Σ(y - mean)²; n·Σ(y - mean)² is n·Σy² - (Σy)² without rounding."""
        unusual = self.squares.special + self._values.special + self._value_squares.special
        if unusual or math.isnan(unusual):
            return math.nan
        spread = ((rows * self._value_squares.units) << UNIT_BITS) - self._values.units**2
        if spread <= 0:
            return 0.0 if self.squares.units else 1.0
        return 1.0 - divide((rows * self.squares.units) << UNIT_BITS, spread)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
