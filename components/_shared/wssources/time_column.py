"""How many rows of tables lie before, in and after a window, by a column of dates, read from end to end."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import DATE
from wssources.column_kinds import settle_kind, to_order
from wssources.formats import TABLES
from wssources.request import open_data, unreadable
from wssources.split_settings import Window
from wssources.table_plan import HEAD_ROWS

Counts = tuple[int, int, int]


def count_times(paths: Iterable[Path], window: Window) -> Counts:
    """Return the rows before a window, in it and after it; those without a date count as before.

    Raises:
        UserError: a file is no table, lacks the column, or has no dates in it.
        OSError: a file cannot be read.
    """
    values = itertools.chain.from_iterable(_read_column(path, window.column) for path in paths)
    head = list(itertools.islice(values, HEAD_ROWS))
    kind, form = settle_kind(head, cells=True)
    if kind != DATE:
        raise UserError(f"column `{clip_text(window.column)}` holds no dates")
    counts = [0, 0, 0]
    for value in itertools.chain(head, values):
        moment = to_order(value, DATE, form)
        counts[0 if moment is None or moment < window.start else 1 if moment <= window.end else 2] += 1
    return counts[0], counts[1], counts[2]


def _read_column(path: Path, name: str) -> Iterator[Any]:
    suffix = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "")
    kind = TABLES.get(suffix)
    if kind not in ("csv", "jsonl", "parquet"):
        raise UserError(f"`{path.name}` is no CSV, JSON Lines or Parquet file, whose columns are read")
    lacking = UserError(f"`{path.name}` has no column `{clip_text(name)}`")
    try:
        if kind == "parquet":
            yield from _read_parquet(path, name, lacking)
            return
        with io.TextIOWrapper(open_data(path), "utf-8-sig", newline="") as stream:
            rows = csv.DictReader(stream) if kind == "csv" else map(json.loads, filter(str.strip, stream))
            for row in rows:
                if name not in row:
                    raise lacking
                yield row[name]
    except (ValueError, TypeError, csv.Error) as error:  # such as that of a text that is not UTF-8
        raise unreadable(path.name, error) from None


def _read_parquet(path: Path, name: str, lacking: UserError) -> Iterator[Any]:
    try:
        from pyarrow import parquet  # not installed with the checker
    except ImportError:
        raise UserError(f"`{path.name}` takes pyarrow to be read") from None
    file = parquet.ParquetFile(path)
    if name not in file.schema_arrow.names:
        raise lacking
    for batch in file.iter_batches(columns=[name]):
        yield from batch.column(0).to_pylist()
