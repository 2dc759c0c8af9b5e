"""Columns of a shards folder that alone tell the label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wsleaks.columns import MAX_CELLS, MAX_ROWS, TellingColumn, find_telling_columns
from wsshards.manifest import Column
from wsshards.reader import ShardReader
from wsshards.terms import CATEGORY, CLASSIFICATION, DATE, REGRESSION

_SECONDS = 86_400  # of a day


def find_in_shards(folder: str | Path, split: str) -> list[TellingColumn]:
    """Return the columns that alone tell the class or the first target, by the first rows of a split.

    The caller has written or read the folder, so that no checksum is calculated again. Rows lie in shuffled
    order: the first are as good as any. Data without columns, and several labels of a row, have none.

    Raises:
        UserError: a shard is missing or of another size.
    """
    reader = ShardReader(folder, split, checksums=False)
    manifest = reader.manifest
    columns = manifest.features.columns
    if not columns or not len(reader) or manifest.task not in (CLASSIFICATION, REGRESSION):
        return []
    most = max(1, min(MAX_ROWS, MAX_CELLS // manifest.features.width))
    rows, labels = reader.gather(np.arange(min(most, len(reader))))
    assert labels is not None
    classes = manifest.task == CLASSIFICATION
    values = labels if classes else labels[:, 0]
    return find_telling_columns(_decode(rows, columns), values.tolist(), classes=classes)


def _decode(rows: npt.NDArray[Any], columns: tuple[Column, ...]) -> dict[str, list[Any]]:
    """Return the values by column: numbers and dates as floats, categories as texts, None if missing."""
    values, place = {}, 0
    for column in columns:
        numbers = rows[:, place].astype(np.float64)
        if column.kind == DATE:
            numbers = numbers * _SECONDS + rows[:, place + 1]
        missing = np.isnan(numbers)
        plain = [None if gone else number for gone, number in zip(missing, numbers.tolist(), strict=True)]
        if column.kind == CATEGORY:  # in no order
            values[column.name] = [None if number is None else str(number) for number in plain]
        else:
            values[column.name] = plain
        place += column.width
    return values
