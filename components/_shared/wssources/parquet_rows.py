"""Counting the rows of small local Parquet files, where pyarrow is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wsshards.regular_files import open_regular
from wsshards.terms import CATEGORY
from wssources.columns import choose_columns
from wssources.parquet import check_footer, check_pages
from wssources.parquet_head import kind_of_type
from wssources.request import FILL, REFUSE, Request
from wssources.split_settings import head_files
from wssources.table_plan import Head, plan_table
from wssources.table_rows import Tally
from wssources.tasks import split_label

_BATCH_ROWS = 1 << 14


def tally_files(request: Request, most_bytes: int) -> Tally | None:
    """Tally the rows of Parquet files; None where that would take reading too much of them.

    Raises:
        ValueError: what would be read is larger than ``most_bytes``.
        UserError: the data cannot be learned from as asked.
    """
    first = head_files(request)[0]
    with open_regular(first) as stream:
        head, unsure = _read_head(request, first, stream, most_bytes)
    plan = plan_table(request, head)
    if plan.missing not in (REFUSE, FILL):
        return None
    tally = Tally(request, plan)
    with open_regular(first) as stream:
        tally.listed_width = _find_width(stream, plan.listed)
    names = list(dict.fromkeys([*plan.labels, *plan.dividing]))
    names += [name for name in unsure if name in plan.features and name not in names]
    for file in request.files:
        with open_regular(file) as stream:
            for row in _read_rows(stream, names, most_bytes):
                left_out = plan.missing == FILL and any(row[name] is None for name in plan.labels)
                tally.add(file, None if left_out else row)
            if plan.missing == FILL:
                tally.incomplete.update(_find_incomplete(stream, plan.features))
    return tally


def _read_head(request: Request, file: Path, stream: Any, most_bytes: int) -> tuple[Head, list[str]]:
    from pyarrow import parquet

    check_footer(stream)
    metadata = parquet.read_metadata(stream)
    schema = metadata.schema.to_arrow_schema()
    labels, chosen = split_label(request.label, schema.names), choose_columns(request, file, schema.names)
    kinds = {field.name: kind_of_type(field.type) for field in schema}
    sure = {name: kind for name, kind in kinds.items() if kind is not None and kind != CATEGORY}
    sure |= {field.name: "list" for field in schema if "list" in str(field.type)}
    read = {*chosen, *(request.split.deciding if request.split else ())}
    unsure = [name for name in schema.names if name in labels or (name in read and name not in sure)]
    head = Head(schema.names, kinds=sure)
    places = [schema.names.index(name) for name in unsure]
    for row in _read_rows(stream, unsure, most_bytes):
        values: list[Any] = [None] * len(schema.names)
        for place, name in zip(places, unsure, strict=True):
            values[place] = row[name]
        if not head.add(values):
            break
    head.complete = not head.rows or len(head.rows) == metadata.num_rows
    return head, unsure


def _read_rows(stream: Any, names: Sequence[str], most_bytes: int) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    check_footer(stream)
    metadata = parquet.read_metadata(stream)
    unpacked = check_pages(stream, metadata, set(names), ())
    if max(metadata.num_rows, unpacked.held, sum(unpacked.groups)) > most_bytes:
        raise ValueError("it is too large to be read for a count")
    rows = max(1, min(_BATCH_ROWS, most_bytes // max(1, unpacked.value)))
    for batch in parquet.ParquetFile(stream, metadata=metadata).iter_batches(rows, columns=list(names)):
        yield from batch.to_pylist()


def _find_width(stream: Any, listed: str) -> int:
    """The length of lists, where their type says it."""
    from pyarrow import parquet

    if not listed:
        return 0
    return int(getattr(parquet.read_schema(stream).field(listed).type, "list_size", 0))


def _find_incomplete(stream: Any, names: Any) -> set[str]:
    """The columns that lack values, as far as the footer says."""
    from pyarrow import parquet

    metadata = parquet.read_metadata(stream)
    found = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if column.path_in_schema in names and column.statistics and column.statistics.null_count:
                found.add(column.path_in_schema)
    return found
