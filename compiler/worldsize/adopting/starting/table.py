"""What a table of the user's is: its columns, which of them is the label, and how it is to be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from wssources.formats import TABLES
from wssources.request import Request
from wssources.table_plan import HEAD_BYTES, Head
from wssources.tasks import FEW_VALUES, LabelValues

LABELS = ("label", "labels", "target", "targets", "y", "class", "classes", "outcome", "response")
_LONG_TEXT = 40  # characters on average, above which a text is read, not sorted into categories
_MEMORY = 16 << 20


class Table(Struct, frozen=True):
    """A file of a table, and the names of its columns."""

    path: Path
    columns: tuple[str, ...]
    head: Head


class Label(Struct, frozen=True):
    """A column that is to be predicted, and why that one."""

    name: str
    reason: str


def read_table(path: Path) -> Table:
    """Read the head of a table.

    Raises:
        UserError: It has no header, or cannot be read.
        OSError: It cannot be opened.
    """
    from wssources import json_rows, row_faults

    kind = TABLES.get(path.suffix.lower(), "csv")
    request = Request(path, [path], "", (), 1, _MEMORY, called=path.name)
    if kind == "parquet":
        head = _read_parquet(path)
    else:
        read = row_faults.read_csv_head if kind == "csv" else json_rows.read_json_head
        head = read(request, [path], HEAD_BYTES)
    return Table(path, tuple(str(each) for each in head.columns), head)


def _read_parquet(path: Path) -> Head:
    import pyarrow.parquet as pq  # only this format needs it

    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(1000), None)
        columns = [str(each) for each in file.schema_arrow.names]
    rows = [] if batch is None else [[row[name] for name in columns] for row in batch.to_pylist()]
    return Head(columns, rows=[*rows])


def find_labels(table: Table) -> list[Label]:
    """The columns that may be the label: those with the name of one, else the last column."""
    named = [each for each in table.columns if each.lower() in LABELS]
    if named:
        return [Label(each, "by its name") for each in named]
    return [Label(table.columns[-1], "the last column")] if table.columns else []


def find_settings(table: Table, label: str) -> dict[str, str]:
    """The inputs of ``shard_data`` that the values of the table ask for."""
    settings: dict[str, str] = {}
    values = LabelValues(label)
    for value in table.head.values(label):
        values.add(value)
    if values.numbers == values.rows and not values.fractions and len(values.distinct) > FEW_VALUES:
        settings["task"] = "regression"
    features = [each for each in table.columns if each != label]
    if any(_is_missing(value) for value in table.head.values(label)):
        settings["missing"] = "drop"
    elif any(_is_missing(value) for name in features for value in table.head.values(name)):
        settings["missing"] = "fill"
    text = [name for name in features if _is_long_text(table.head.values(name))]
    if len(text) == 1 and len(features) == 1:
        settings |= {"text": text[0]}
    return settings


def _is_missing(value: object) -> bool:
    return value is None or value == ""


def _is_long_text(values: Sequence[object]) -> bool:
    texts = [each for each in values if isinstance(each, str) and each]
    return (
        bool(texts) and sum(map(len, texts)) > _LONG_TEXT * len(texts) and any(" " in each for each in texts)
    )
