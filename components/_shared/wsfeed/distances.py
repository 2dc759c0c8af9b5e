"""How far two distributions are from each other, and how likely chance alone would part them so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[Any]
LEAST_EXPECTED = 5  # rows of a cell, below which chi-square is not trusted


def population_stability_index(before: Counts, now: Counts) -> float:
    """Return the PSI of counts `[bins]`: the sum of `(p − q) · ln(p / q)` over the shares of the bins.

    It is the Kullback-Leibler divergence of both directions together (Lewis, "An Introduction to Credit
    Scoring", 1994; Siddiqi, "Credit Risk Scorecards", 2006, who calls 0.1 a small and 0.25 a large shift).
    Half a row is added to each bin, so that an empty one leaves it finite.
    """
    p, q = ((counts + 0.5) / (counts.sum() + 0.5 * len(counts)) for counts in (before, now))
    return float(np.sum((p - q) * np.log(p / q)))


def kolmogorov_smirnov(before: Counts, now: Counts) -> tuple[float, float]:
    """Return the largest difference of two cumulative distributions, and how likely chance exceeds it.

    Between the edges of the bins it may be larger, by the share of one bin at most. The probability is
    Kolmogorov's limit `2 Σ (−1)^(k−1) exp(−2 k² x²)` with `x = D √(n m / (n + m))` (Smirnov, "Table for
    estimating the goodness of fit of empirical distributions", 1948).
    """
    n, m = float(before.sum()), float(now.sum())
    if not n or not m:
        return 0.0, 1.0
    distance = float(np.abs(before.cumsum() / n - now.cumsum() / m).max())
    x = distance * math.sqrt(n * m / (n + m))
    if x < 0.2:  # the series converges slowly, to 1
        return distance, 1.0
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 101))
    return distance, min(1.0, max(0.0, 2 * math.fsum(terms)))


def chi_square(before: Counts, now: Counts) -> tuple[float, float]:
    """Return Pearson's statistic of the table of two rows of counts, and how likely chance exceeds it.

    It is `Σ (observed − expected)² / expected`, with one degree of freedom less than there are columns
    (Pearson 1900). Columns that expect fewer than `LEAST_EXPECTED` rows count as one.
    """
    table = np.stack([before, now]).astype(float)
    n, m = table.sum(axis=1)
    if not n or not m:
        return 0.0, 1.0
    rare = table.sum(axis=0) * min(n, m) / (n + m) < LEAST_EXPECTED
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    table = table[:, table.any(axis=0)]
    expected = table.sum(axis=0) * np.array([[n], [m]]) / (n + m)
    statistic = float(((table - expected) ** 2 / expected).sum())
    return statistic, _exceed_chi_square(statistic, table.shape[1] - 1)


def proportion_deviate(before: float, rows_before: int, now: float, rows_now: int) -> float:
    """Return by how many standard errors a share is larger than it was, with the pooled share.

    It is `(p − q) / √(r (1 − r) (1/n + 1/m))`, the usual test of two proportions (Fleiss, "Statistical
    Methods for Rates and Proportions", 1981).
    """
    if not rows_before or not rows_now:
        return 0.0
    pooled = (before * rows_before + now * rows_now) / (rows_before + rows_now)
    error = math.sqrt(max(0.0, pooled * (1 - pooled)) * (1 / rows_before + 1 / rows_now))
    return (now - before) / error if error else 0.0


def _exceed_chi_square(statistic: float, freedom: int) -> float:
    """The regularised upper incomplete gamma function `Q(freedom / 2, statistic / 2)`.

    By its series below, by Lentz's continued fraction above (Press and others, "Numerical Recipes", 6.2).
    """
    a, x = freedom / 2, statistic / 2
    if freedom < 1 or x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for step in range(1, 10_000):
            term *= x / (a + step)
            total += term
            if term < total * 1e-15:
                break
        return max(0.0, 1 - total * scale)
    b = x + 1 - a
    c, d = 1e300, 1 / b
    fraction = d
    for step in range(1, 10_000):
        numerator = step * (a - step)
        b += 2
        d = 1 / (numerator * d + b)
        c = b + numerator / c
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return scale * fraction
