"""What a table of the user's is: its columns, which of them is the label, and how it is to be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from wsshards.errors import UserError
from wsshards.terms import CATEGORY
from wssources.column_kinds import check_categories, find_kind
from wssources.formats import TABLES
from wssources.name_lists import join_names
from wssources.request import Request, unreadable
from wssources.table_plan import HEAD_BYTES, Head
from wssources.tasks import FEW_VALUES, LabelValues

LABELS = ("label", "labels", "target", "targets", "y", "class", "classes", "outcome", "response")
_FRACTION = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?")
_NUMBER_OF_ROW = re.compile(r"(?:.*[_\s])?id|index|row_?(?:id|number|no)|unnamed: 0", re.IGNORECASE)
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
    if head.complete and len(head.rows) < 2:
        found = f"`{path.name}` has {'only 1 row' if head.rows else 'no rows'}"
        raise UserError(found, "give it rows to train on, and some to validate with")
    number = next((each for each in map(str, head.columns) if _FRACTION.fullmatch(each.strip())), None)
    if kind == "csv" and number is not None:
        found = f"`{path.name}` has no header: its first row has the number `{number}`"
        raise UserError(found, "write the names of the columns into a first line")
    return Table(path, tuple(str(each) for each in head.columns), head)


def _read_parquet(path: Path) -> Head:
    import pyarrow as pa  # only this format needs it
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            batch = next(file.iter_batches(1000), None)
            columns = [str(each) for each in file.schema_arrow.names]
    except pa.ArrowException as error:
        raise unreadable(path.name, error) from None
    rows = [] if batch is None else [[row[name] for name in columns] for row in batch.to_pylist()]
    return Head(columns, rows=[*rows])


def find_labels(table: Table) -> list[Label]:
    """The columns that may be the label: those with the name of one, else the last column."""
    named = [each for each in table.columns if each.strip().lower() in LABELS]
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
    features = [each for each in table.columns if each != label and not _is_identifier(table, each)]
    if features and len(features) < len(table.columns) - 1:
        settings["features"] = join_names(features)
    if any(_is_missing(value) for value in table.head.values(label)):
        settings["missing"] = "drop"
    elif any(_is_missing(value) for name in features for value in table.head.values(name)):
        settings["missing"] = "fill"
    text = [name for name in features if _is_long_text(table.head.values(name))]
    if len(text) == 1 and len(features) == 1:
        settings |= {"text": text[0]}
    return settings


def _is_identifier(table: Table, name: str) -> bool:
    """Whether a column only names its row: numbers without a name, or a text of its own in each row."""
    if not name:
        return True
    values = table.head.values(name)
    if _NUMBER_OF_ROW.fullmatch(name.strip()) and _counts(values):
        return True
    if _is_long_text(values) or find_kind(values, cells=table.head.cells) != CATEGORY:
        return False
    try:
        check_categories(name, values, sampled=not table.head.complete, called=table.path.name)
    except UserError:
        return True
    return False


def _counts(values: Sequence[object]) -> bool:
    """Whether these are whole numbers, each another, as those of rows are."""
    whole = [str(each) for each in values]
    return len(set(whole)) == len(whole) and all(each.isdecimal() for each in whole)


def _is_missing(value: object) -> bool:
    return value is None or value == ""


def _is_long_text(values: Sequence[object]) -> bool:
    texts = [each for each in values if isinstance(each, str) and each]
    return (
        bool(texts) and sum(map(len, texts)) > _LONG_TEXT * len(texts) and any(" " in each for each in texts)
    )
