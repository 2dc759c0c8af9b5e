"""Sums of doubles without rounding, so that the order of the summands does not matter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# A double is an integer of 53 bits times a power of two that is at least 2**-1126 (the smallest, 2**-1074, is
# 2**52 of these), so every sum of doubles is an integer in this unit.
UNIT_BITS = 1126
_MANTISSA = 53
_LOW = 27  # bits of the lower half of a mantissa: 2**26 halves add up to less than 2**53, so without rounding
_CHUNK = 1 << 20


class ExactSum:
    """The exact sum of any number of doubles.

    The sum is a Python integer, as in Kulisch's long accumulator (U. Kulisch, "Computer Arithmetic and
    Validity", 2013, chapter 8), and is rounded once, when it is read.

    Attributes:
        units: the sum of the finite summands in units of `2**-UNIT_BITS`.
        special: 0, or the sum of the summands that are infinite or NaN.
    """

    __slots__ = ("special", "units")

    def __init__(self, units: int = 0, special: float = 0.0) -> None:
        self.units = units
        self.special = special

    def __getstate__(self) -> tuple[int, float]:
        return self.units, self.special

    def __setstate__(self, state: tuple[int, float]) -> None:
        self.units, self.special = state

    def add(self, values: Array) -> None:
        """Add all values of an array."""
        flat = np.asarray(values, np.float64).reshape(-1)
        finite = np.isfinite(flat)
        if not finite.all():
            with np.errstate(invalid="ignore"):  # the sum of both infinities is NaN
                self.special += float(flat[~finite].sum())
            flat = flat[finite]
        for start in range(0, len(flat), _CHUNK):
            self.units += _sum_units(flat[start : start + _CHUNK])

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self.units += other.units
        self.special += other.special

    def divided(self, by: int) -> float:
        """Return the sum divided by a positive whole number, rounded once."""
        if self.special or math.isnan(self.special):
            return self.special
        return divide(self.units, by << UNIT_BITS)


def divide(numerator: int, denominator: int) -> float:
    """Return a quotient of integers as the nearest double, infinite where none is large enough."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def square_exactly(values: Array) -> tuple[Array, Array]:
    """Return two arrays whose sum is the square of each value without rounding.

    Source: T. J. Dekker, "A floating-point technique for extending the available precision", 1971. It holds
    for magnitudes from 1e-140 to 1e150.
    """
    scaled = values * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - values)
    low = values - high
    square = values * values
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _sum_units(values: Array) -> int:
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, _MANTISSA).astype(np.int64)
    least = int(exponents.min())
    places = exponents - least
    highs = np.bincount(places, weights=(mantissas >> _LOW).astype(np.float64))
    lows = np.bincount(places, weights=(mantissas & ((1 << _LOW) - 1)).astype(np.float64))
    total = 0
    for place in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
        total += ((int(highs[place]) << _LOW) + int(lows[place])) << place
    return total << (least + UNIT_BITS - _MANTISSA)
