"""Turns coded rows of a table back into its columns, for models that take them by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.manifest import Column
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER

Array = npt.NDArray[Any]
UNSEEN = "(unseen)"  # stands for a category that no training row has: its name is not in the shards
_SECONDS = 86_400  # of a day


def has_plain_numbers(columns: Sequence[Column]) -> bool:
    """Whether every column holds numbers, none of which may be missing."""
    return all(column.kind == NUMBER and not column.optional for column in columns)


def decode_table(rows: Array, columns: Sequence[Column]) -> Any:
    """Return a DataFrame with the columns of the table.

    Args:
        rows: coded rows `[n, width]`; NaN is a missing value.
        columns: of the manifest, in order.

    Returns:
        Numbers as float64, with NaN; booleans as bool, or as objects with None; categories as text, with
        None; dates as datetime64, with NaT.
    """
    import pandas as pd  # only models with named columns need it

    values, place = {}, 0
    for column in columns:
        part = np.asarray(rows[:, place : place + column.width], np.float64)
        values[column.name] = _decode(part, column)
        place += column.width
    return pd.DataFrame(values)


def write_dates(dates: Any, form: str) -> Any:
    """Return dates as the texts that they were, with None where one is missing."""
    return dates.dt.tz_localize("UTC").dt.strftime(form).astype(object).where(dates.notna(), None)


def _decode(part: Array, column: Column) -> Any:
    missing = np.isnan(part).any(axis=1)
    if column.kind == CATEGORY:
        # The last two entries are for -1 and for nothing.
        texts = np.array([*column.categories, None, UNSEEN], object)
        return texts[np.where(missing, -2, part[:, 0]).astype(np.int64)]
    if column.kind == BOOLEAN:
        if not missing.any():
            return part[:, 0] != 0
        return np.where(missing, None, part[:, 0] != 0)
    if column.kind == DATE:
        days, seconds = part.T
        whole = np.where(missing, 0, days * _SECONDS + seconds)
        dates = np.round(whole).astype("datetime64[s]").astype("datetime64[ns]")
        dates[missing] = np.datetime64("NaT")
        return dates
    return part[:, 0]
