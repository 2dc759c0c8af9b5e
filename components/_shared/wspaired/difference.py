"""The difference of two models on the same rows, with its standard error, interval and test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

_NORMAL = NormalDist()
_TWO_SIDED = _NORMAL.inv_cdf(0.975)
# Of a test at 5 % that finds the difference in 80 of 100 cases: H. S. Bloom, "Minimum Detectable Effects: A
# Simple Way to Report the Statistical Power of Experimental Designs", Evaluation Review 19, 1995.
_VISIBLE = _TWO_SIDED + _NORMAL.inv_cdf(0.8)
EXACT = 25  # discordant rows up to which McNemar's test is exact
_FEWEST = 6  # discordant rows, all for one model, that the exact test takes for a difference: 2 / 2**6 < 0.05


@dataclass(frozen=True)
class Difference:
    """The improvement of the challenger in one metric: positive is better, whatever its direction.

    Attributes:
        value: in the metric's unit.
        standard_error: of the value.
        low: lower end of the 95 % interval, value - 1.96 · standard error.
        high: upper end.
        rows: rows compared.
        units: what varies independently: rows, or the groups that rows were divided by.
        discordant: rows of which the models differ in what the metric counts.
        p_value: two-sided, of no difference: McNemar's of right and wrong rows, else the normal one.
        smallest_visible: what a two-sided test at 5 % would find in 80 of 100 cases, 2.80 standard errors.
    """

    value: float
    standard_error: float
    low: float
    high: float
    rows: int
    units: int
    discordant: int
    p_value: float
    smallest_visible: float

    @property
    def is_tie(self) -> bool:
        """Whether the models do not differ in the metric."""
        return self.value == 0 and self.standard_error == 0

    def lower_bound(self, confidence: float) -> float:
        """Return what the improvement is more than, with a one-sided confidence."""
        return self.value - _NORMAL.inv_cdf(confidence) * self.standard_error


def make_difference(
    value: float,
    standard_error: float,
    *,
    rows: int,
    units: int,
    discordant: int,
    won: tuple[int, int] | None = None,
) -> Difference:
    """Return a difference with what follows from its standard error.

    Args:
        value: the improvement.
        standard_error: of the value.
        rows: rows compared.
        units: independent ones.
        discordant: rows that differ.
        won: rows that only the champion, and only the challenger, gets right, if rows are independent.
    """
    margin = _TWO_SIDED * standard_error
    if won is not None:
        p_value = mcnemar(*won)
    elif standard_error > 0:
        p_value = math.erfc(abs(value) / standard_error / math.sqrt(2))
    else:
        p_value = 1.0 if value == 0 else 0.0
    visible = _VISIBLE * standard_error
    if won is not None:
        visible = max(visible, min(_FEWEST / rows, 1.0))
    return Difference(
        value, standard_error, value - margin, value + margin, rows, units, discordant, p_value, visible
    )


def mcnemar(first: int, second: int) -> float:
    """Return the two-sided p-value of McNemar's test of the discordant counts.

    Below `EXACT` discordant rows it is the binomial one, else that of chi-square with one degree of freedom
    and a continuity correction, (|first - second| - 1)² / (first + second), as statsmodels has both (A. L.
    Edwards, "Note on the correction for continuity in testing the significance of the difference between
    correlated proportions", Psychometrika 13, 1948).
    """
    total = first + second
    if total < EXACT:
        tail = sum(math.comb(total, count) for count in range(min(first, second) + 1))
        return min(1.0, 2.0 * tail / float(2**total))
    return math.erfc(abs(abs(first - second) - 1) / math.sqrt(2 * total))
