"""What is drawn again: rows, or the groups that rows were divided by, in at most 10,000 bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
MAX_UNITS = 10_000
MIN_UNITS = 10  # of fewer the spread says nothing
_SUMS = 1 << 23  # doubles of one model: 64 MiB


def assign_units(rows: int, groups: Array | None, width: int) -> tuple[Array, int]:
    """Return the unit of each row `[rows]`, and how many units there are.

    Rows of one group are not independent, so a group is one unit (A. C. Davison and D. V. Hinkley, "Bootstrap
    Methods and their Application", 1997, section 3.8). Beyond `MAX_UNITS`, or fewer where a unit has many
    sums, units are joined at random to bins of about the same size, which are drawn in their place: the sum
    over a bin has the variance of its units together.

    Args:
        rows: number of rows.
        groups: the group of each row, or None.
        width: sums that are kept of a unit.
    """
    limit = max(min(MAX_UNITS, _SUMS // max(width, 1)), MIN_UNITS)
    if groups is None:
        return np.arange(rows) % limit, min(rows, limit)
    distinct, units = np.unique(groups, return_inverse=True)
    return units.reshape(-1) % limit, min(len(distinct), limit)
