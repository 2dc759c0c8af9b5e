"""CSV files with a header, streamed by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sources.common import FAULTS, Source
from sources.tables import FileBatch, Place, make_source
from wsshards.errors import UserError
from wsshards.regular_files import path_of_open
from wsshards.terms import BOOLEAN, DATE, NUMBER, REGRESSION
from wssources import row_faults
from wssources.column_kinds import MISSING_NUMBERS
from wssources.columns import same_columns
from wssources.request import BLOCK_BYTES, REFUSE, Request, is_packed, open_data, unreadable
from wssources.split_settings import head_files
from wssources.table_plan import HEAD_BYTES, TablePlan, plan_table


def read_csv(request: Request) -> Source:
    """Rows of CSV files with a header.

    Raises:
        UserError: a file cannot be read, has no header, or its columns do not fit.
    """
    files = head_files(request)
    plan = plan_table(request, row_faults.read_csv_head(request, files, HEAD_BYTES))

    def stream(wanted: TablePlan) -> Iterator[FileBatch]:
        for file in request.files:
            header = row_faults.csv_header(request, file)
            same_columns(request, files[0], wanted.names, file, header)
            try:
                yield from _read_file(request, file, wanted)
            except OSError as error:
                raise unreadable(request.show(file), error) from None
            except FAULTS as error:
                raise row_faults.explain_csv(request, file, wanted, error) from None

    return make_source(request, plan, plan.width, stream)


def _read_file(request: Request, file: Path, plan: TablePlan) -> Iterator[FileBatch]:
    from pyarrow import csv  # shadows the standard library's name

    # Text is missing only where it is empty: `NA` may be a category.
    own = plan.missing != REFUSE
    options = csv.ConvertOptions(
        column_types={name: _type_of(plan, name) for name in plan.names},
        include_columns=plan.names,
        null_values=list(MISSING_NUMBERS) if own else [""],
        strings_can_be_null=not own,
    )

    def explain(error: UserError) -> UserError:
        return row_faults.explain_csv(request, file, plan, error)

    start = 0
    with _csv_stream(file) as stream:
        # Threads would read as far ahead as unpacking, which takes most of the time, lets them.
        reading = csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=not is_packed(file))
        reader = csv.open_csv(
            stream,
            reading,
            csv.ParseOptions(newlines_in_values=True),
            options,
        )
        for batch in reader:
            table = _mark_missing(batch, plan) if own else batch
            yield FileBatch(table, Place(request.show(file), start), file, explain)
            start += batch.num_rows


def _type_of(plan: TablePlan, name: str) -> Any:
    kind = plan.features.get(name)
    if name in plan.labels and plan.decision.task == REGRESSION:
        return pa.float64()
    if name in plan.dividing and kind == NUMBER:
        return pa.float64()  # compared exactly
    if kind is None and name == plan.time and plan.bounds:
        return pa.float64() if plan.bounds.kind == NUMBER else pa.string()
    return {NUMBER: pa.float32(), BOOLEAN: pa.bool_()}.get(kind or "", pa.string())


def _mark_missing(batch: Any, plan: TablePlan) -> Any:
    """Make nulls of empty texts, and in columns of dates of what stands for a missing date."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        made = column
        if pa.types.is_string(column.type):
            signs = MISSING_NUMBERS if plan.features.get(name) == DATE else ("",)
            missing = pc.is_in(column, pa.array(signs))
            if pc.any(missing).as_py():
                made = pc.if_else(missing, None, column)
        columns.append(made)
    return pa.record_batch(columns, names=batch.schema.names)


@contextmanager
def _csv_stream(file: Path) -> Iterator[Any]:
    if is_packed(file):
        with open_data(file) as unpacked:
            yield pa.PythonFile(unpacked, "r")
        return
    with path_of_open(file) as path, pa.OSFile(path) as stream:
        yield stream
