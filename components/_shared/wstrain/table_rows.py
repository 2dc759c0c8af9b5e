"""Codes the columns of a DataFrame as shards store them.

This file travels with the exported model of a table and imports none of our packages. Each loaded model has a
copy of its own, which is in no list of modules, so models of different tables do not mix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

_EPOCH = np.datetime64("1970-01-01")
_SECONDS_PER_DAY = 86_400


class RowCoder:
    """Turns raw columns, by name, into the numbers that the exported program takes.

    Args:
        columns: each with ``name``, ``kind``, ``categories``, ``optional`` and ``form``.
    """

    def __init__(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self._columns = columns

    def __call__(self, frame: Any) -> npt.NDArray[np.float32]:
        """Code the rows of a DataFrame; returns ``[n, width]``, with NaN where a value is missing.

        Raises:
            ValueError: a column or a value is missing that the model needs, or a value is of another kind.
        """
        if not isinstance(frame, pd.DataFrame):
            frame = pd.DataFrame(frame, columns=[column["name"] for column in self._columns])
        parts = [self._code(frame, column) for column in self._columns]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _code(self, frame: pd.DataFrame, column: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        name = column["name"]
        if name in frame.columns:
            values = frame[name]
        elif column["optional"]:
            values = pd.Series([None] * len(frame), dtype=object)
        else:
            raise ValueError(f"column `{name}` is missing, and the model needs it")
        absent = values.isna().to_numpy(bool)
        if absent.any() and not column["optional"]:
            raise ValueError(
                f"column `{name}` has no value in row {int(absent.argmax())}, and the model needs it"
            )
        try:
            coded = _CODERS[column["kind"]](values, absent, column)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"column `{name}` does not hold values of kind {column['kind']}: {error}"
            ) from None
        coded[absent] = np.nan
        return coded


def _code_numbers(
    values: pd.Series, absent: npt.NDArray[np.bool_], _: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    del absent
    coded = np.empty((len(values), 1))
    coded[:, 0] = pd.to_numeric(values).to_numpy(np.float64, na_value=np.nan)
    return coded


def _code_booleans(
    values: pd.Series, absent: npt.NDArray[np.bool_], _: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    coded = np.zeros((len(values), 1))
    coded[~absent, 0] = [float(bool(value)) for value in values[~absent]]
    return coded


def _code_categories(
    values: pd.Series, absent: npt.NDArray[np.bool_], column: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    numbers = {value: number for number, value in enumerate(column["categories"])}
    coded = np.zeros((len(values), 1))
    coded[~absent, 0] = [numbers.get(str(value), -1) for value in values[~absent]]
    return coded


def _code_dates(
    values: pd.Series, absent: npt.NDArray[np.bool_], column: Mapping[str, Any]
) -> npt.NDArray[np.float64]:
    form = column["form"] or None
    moments = pd.to_datetime(values, utc=True, format=form).dt.tz_localize(None).to_numpy("datetime64[s]")
    seconds = np.where(absent, _EPOCH, moments).astype("datetime64[s]").astype(np.int64)
    days, rest = np.divmod(seconds, _SECONDS_PER_DAY)
    return np.stack([days, rest], axis=1).astype(np.float64)


_CODERS = {
    "number": _code_numbers,
    "boolean": _code_booleans,
    "category": _code_categories,
    "date": _code_dates,
}
