"""Fit the constants of the step-time model on published training speeds.

    python tests/benchmarks/scaling/fit.py            prints the fit and its errors
    python tests/benchmarks/scaling/fit.py --write    also writes facts/step_time_constants.csv

The fit minimises the logarithm of estimated over published speed, with a loss that grows linearly beyond
4 % so that outliers count less, and a prior on each constant: a value that the physics suggests, and a
standard deviation of its logarithm.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from published import Published, read_published
from scipy.optimize import least_squares

from worldsize.facts import table
from worldsize.planning.estimates.calibration import NOT_CALIBRATED
from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.estimate import estimate

CONSTANTS = Path(table.__file__).with_name("step_time_constants.csv")
SCALE = 0.04  # errors above this count linearly


class Prior(Struct, frozen=True):
    """What the physics suggests: a value, and the standard deviation of its logarithm; 0 keeps the value."""

    value: float
    deviation: float


def _read_priors() -> dict[str, Prior]:
    with Path(__file__).with_name("priors.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return {row["name"]: Prior(float(row["value"]), float(row["deviation"])) for row in rows}


PRIORS = _read_priors()
NAMES = [name for name, prior in PRIORS.items() if prior.deviation]
DEVIATIONS = np.array([PRIORS[name].deviation for name in NAMES])


def make_constants(values: dict[str, float]) -> Constants:
    """Constants from flat names."""
    nested: dict[str, float | dict[str, float]] = {}
    for name, value in values.items():
        field, _, key = name.partition(".")
        if key:
            nested.setdefault(field, {})[key] = value  # type: ignore[index]
        else:
            nested[field] = value
    return Constants(**nested)  # type: ignore[arg-type]


def predict(row: Published, constants: Constants) -> float:
    """The estimate in the row's unit."""
    estimated = estimate(row.workload, row.training, row.cluster, NOT_CALIBRATED, constants)
    assert estimated is not None
    return row.predict(estimated)


def error(row: Published, constants: Constants) -> float:
    """Natural logarithm of estimated over published."""
    return math.log(predict(row, constants) / row.value)


def fit(rows: Sequence[Published]) -> dict[str, float]:
    """The constants with the least loss on these rows."""

    def values_at(logarithms: np.ndarray) -> dict[str, float]:
        fixed = {name: prior.value for name, prior in PRIORS.items()}
        moved = zip(NAMES, logarithms, strict=True)
        return fixed | {name: PRIORS[name].value * math.exp(x) for name, x in moved}

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        constants = make_constants(values_at(logarithms))
        errors = np.array([error(row, constants) for row in rows]) / SCALE
        robust = np.sign(errors) * np.sqrt(2 * (np.sqrt(1 + errors**2) - 1))  # pseudo-Huber
        return np.concatenate([robust, logarithms / DEVIATIONS])

    solution = least_squares(residuals, np.zeros(len(NAMES)), max_nfev=40, xtol=1e-5, ftol=1e-5)
    return values_at(solution.x)


def describe(rows: Sequence[Published], constants: Constants, name: str) -> str:
    """Mean error, bias and shares within bounds of some rows."""
    errors = np.array([error(row, constants) for row in rows])
    relative = np.abs(np.exp(errors) - 1)
    return (
        f"{name:<28} {len(rows):>4} rows  mean error {relative.mean():6.2%}  bias {errors.mean():+6.2%}"
        f"  within 15 % {np.mean(relative <= 0.15):6.1%}  within 10 % {np.mean(relative <= 0.10):6.1%}"
    )


def write(values: dict[str, float]) -> None:
    """Write the constants with their priors."""
    with CONSTANTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "value"])
        writer.writerows([name, f"{values[name]:.4g}"] for name in PRIORS)


def main() -> None:
    """Fit, and print the fit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the constants")
    options = parser.parse_args()
    rows = read_published()
    values = fit(rows)
    constants = make_constants(values)
    for name in NAMES:
        print(
            f"{name:<28} {values[name]:>10.4g}  prior {PRIORS[name].value:>8g} ± {PRIORS[name].deviation:.0%}"
        )
    selections: dict[str, Callable[[Published], bool]] = {
        "RDMA transformers": lambda row: row.is_rdma_transformer,
        "others": lambda row: not row.is_rdma_transformer,
    }
    for name, selected in selections.items():
        print(describe([row for row in rows if selected(row)], constants, name))
    for row in sorted(rows, key=lambda row: -abs(error(row, constants)))[:25]:
        print(f"  {row.name:<44} {row.value:>12.5g} {math.expm1(error(row, constants)):+.1%}")
    if options.write:
        write(values)


if __name__ == "__main__":
    main()
