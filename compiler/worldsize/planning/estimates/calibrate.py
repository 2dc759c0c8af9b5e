"""Fit a calibration: the factors on computation and exchanges with which estimates meet measured steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from worldsize.planning.estimates.calibration import Calibration, Measurement
from worldsize.planning.estimates.constants import Constants, fitted
from worldsize.planning.estimates.step_time import time_step

# A factor that measurements hardly tell stays near 1: the weight of that, beside theirs of 1.
_PRIOR = 1e-6
_TELLING = 0.02  # of a step's time: exchanges of a smaller share, or shares as near, tell nothing of them
_STEP = 1e-5  # of numerical derivatives
_ITERATIONS = 60
_START_DAMPING = 1e-3
_MAX_DAMPING = 1e12
_CONVERGED = 1e-9
_MAX_LOGARITHM = 20.0  # of a factor

_Point = tuple[float, float]  # logarithms of the factors on computation and on exchanges
_Misfit = Callable[[_Point], list[float]]


def calibrate(measured: Sequence[Measurement]) -> Calibration:
    """Fit what the measurements can tell.

    Runs of one process tell the factor on computation. A run with exchanges, beside another run whose share
    of exchanges differs, tells that on exchanges too; alone, it tells one factor on the whole. More
    measurements are fitted by least squares of the logarithms of times (Gauss-Newton with the damping of
    Marquardt 1963). Factors are fitted as logarithms, so that none is negative.

    Raises ValueError if there is no measurement, a time is not positive and finite, or a case has a link that
    is unknown.
    """
    if not measured:
        raise ValueError("there is no measurement")
    for run in measured:
        if not (math.isfinite(run.step_seconds) and run.step_seconds > 0):
            raise ValueError(f"a step of {run.step_seconds:g} seconds is no measurement")
    misfit = _make_misfit(measured, fitted())
    whole = -sum(misfit((0.0, 0.0))) / len(measured)  # times are proportional to both factors together
    point = (whole, whole)
    shares = [by_network for _, by_network in _find_slopes(misfit, point)]
    network_tells = max(shares) - min(shares) > _TELLING
    if network_tells or max(shares) < _TELLING:
        point = _fit(misfit, point if network_tells else (whole, 0.0))
    freedom = max(1, len(measured) - (2 if network_tells else 1))
    residual = math.sqrt(sum(left * left for left in misfit(point)) / freedom)
    return Calibration(math.exp(point[0]), math.exp(point[1]), tuple(measured), network_tells, residual)


def _make_misfit(measured: Sequence[Measurement], constants: Constants) -> _Misfit:
    """Logarithms of estimated over measured times, as a function of the logarithms of the factors."""

    def misfit(point: _Point) -> list[float]:
        trial = Calibration(math.exp(point[0]), math.exp(point[1]), tuple(measured))
        return [_log_ratio(run, constants, trial) for run in measured]

    return misfit


def _log_ratio(run: Measurement, constants: Constants, trial: Calibration) -> float:
    parts = time_step(run.case, constants, trial)
    if parts is None:
        raise ValueError("a measured case has a link whose rate is unknown")
    return math.log(parts.seconds / run.step_seconds)


def _find_slopes(misfit: _Misfit, point: _Point) -> list[tuple[float, float]]:
    """Derivatives of each misfit by the two logarithms."""
    before = misfit((point[0] - _STEP, point[1])), misfit((point[0], point[1] - _STEP))
    after = misfit((point[0] + _STEP, point[1])), misfit((point[0], point[1] + _STEP))
    return [
        ((a - b) / (2 * _STEP), (c - d) / (2 * _STEP))
        for a, b, c, d in zip(after[0], before[0], after[1], before[1], strict=True)
    ]


def _fit(misfit: _Misfit, start: _Point) -> _Point:
    """The point with the least sum of squares near ``start``."""
    point, damping = start, _START_DAMPING
    loss = _find_loss(misfit, point)
    for _ in range(_ITERATIONS):
        step = _find_step(misfit, point, damping)
        trial = (point[0] + step[0], point[1] + step[1])
        trial_loss = _find_loss(misfit, trial)
        if trial_loss <= loss:
            point, loss, damping = trial, trial_loss, damping / 10
            if max(map(abs, step)) < _CONVERGED:
                break
        elif (damping := damping * 10) > _MAX_DAMPING:
            break
    return point


def _find_loss(misfit: _Misfit, point: _Point) -> float:
    if max(map(abs, point)) > _MAX_LOGARITHM:
        return math.inf
    return sum(miss * miss for miss in misfit(point)) + _PRIOR * (point[0] ** 2 + point[1] ** 2)


def _find_step(misfit: _Misfit, point: _Point, damping: float) -> _Point:
    """The solution of the damped normal equations."""
    left, slopes = misfit(point), _find_slopes(misfit, point)
    a = sum(x * x for x, _ in slopes) + _PRIOR
    b = sum(x * y for x, y in slopes)
    d = sum(y * y for _, y in slopes) + _PRIOR
    a, d = a * (1 + damping), d * (1 + damping)
    e = -sum(x * miss for (x, _), miss in zip(slopes, left, strict=True)) - _PRIOR * point[0]
    f = -sum(y * miss for (_, y), miss in zip(slopes, left, strict=True)) - _PRIOR * point[1]
    determinant = a * d - b * b
    return (d * e - b * f) / determinant, (a * f - b * e) / determinant
