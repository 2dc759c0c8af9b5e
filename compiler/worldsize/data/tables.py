"""Reads the head of a table: its columns, and as many rows as fit the budget."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from wsshards.errors import UserError
from wsshards.regular_files import open_regular
from wssources import json_rows, row_faults
from wssources.formats import TABLES
from wssources.request import Files, Request, unreadable
from wssources.table_plan import HEAD_BYTES, Head

_MEMORY = 16 << 20
_FRACTION = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")


class Table(Struct, frozen=True):
    """A file of a table, and the names of its columns."""

    path: Path
    columns: tuple[str, ...]
    head: Head


def read_table(path: Path) -> Table:
    """Read the head of a table.

    Raises:
        UserError: It has no header, or cannot be read.
        OSError: It cannot be opened.
    """
    kind = TABLES.get(path.suffix.lower(), "csv")
    request = Request(path, [path], "", (), 1, _MEMORY, called=path.name)
    if kind == "parquet":
        head = _read_parquet(path)
    else:
        read = row_faults.read_csv_head if kind == "csv" else json_rows.read_json_head
        head = read(request, [path], HEAD_BYTES)
    if head.complete and len(head.rows) < 2:
        fault = f"`{path.name}` has {'only 1 row' if head.rows else 'no rows'}"
        raise UserError(fault, "give it rows to train on, and some to validate with")
    number = next((name for name in map(str, head.columns) if _FRACTION.fullmatch(name.strip())), None)
    if kind == "csv" and number is not None:
        fault = f"`{path.name}` has no header: its first row has the number `{number}`"
        raise UserError(fault, "write the names of the columns into a first line")
    return Table(path, tuple(str(name) for name in head.columns), head)


def _read_parquet(path: Path) -> Head:
    import pyarrow as pa  # only this format needs it
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as opened, pq.ParquetFile(opened) as file:
            batch = next(file.iter_batches(1000), None)
            columns = [str(name) for name in file.schema_arrow.names]
    except pa.ArrowException as error:
        raise unreadable(path.name, error) from None
    rows = [] if batch is None else [[row[name] for name in columns] for row in batch.to_pylist()]
    return Head(columns, rows=[*rows])


def read_header(file: Path, called: str = "") -> list[str]:
    """The columns of a table of text with commas; empty if they are not certain."""
    try:
        return row_faults.csv_header(Request(file, Files(file, [""]), "", (), 1, 0, called), file)
    except UserError:
        return []
