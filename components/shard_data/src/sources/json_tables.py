"""JSON Lines files: one object a line, with values in its fields or one list of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sources.common import FAULTS, Source
from sources.tables import FileBatch, Place, make_source
from wsshards.errors import UserError
from wssources import json_rows
from wssources.request import BLOCK_BYTES, Request
from wssources.split_settings import head_files
from wssources.table_plan import HEAD_BYTES, TablePlan, plan_table

_TYPES = {
    json_rows.A_NUMBER: pa.float32(),
    json_rows.NUMBERS: pa.list_(pa.float32()),
    json_rows.WHOLE: pa.int64(),
    json_rows.A_BOOLEAN: pa.bool_(),
    json_rows.TEXT: pa.string(),
    json_rows.TEXTS: pa.list_(pa.string()),
}


def read_jsonl(request: Request) -> Source:
    """Rows of JSON Lines files.

    Raises:
        UserError: a file cannot be read, or its first line does not fit.
    """
    files = head_files(request)
    head = json_rows.read_json_head(request, files, HEAD_BYTES)
    plan = plan_table(request, head)
    kinds = json_rows.find_json_kinds(plan, head)
    listed = (
        next((value for value in head.values(plan.listed) if value is not None), []) if plan.listed else []
    )
    width = len(listed) if plan.listed else plan.width

    def stream(wanted: TablePlan) -> Iterator[FileBatch]:
        only = {name: kinds[name] for name in wanted.names}
        for file in request.files:
            start = 0
            for block in json_rows.line_blocks(request, file, BLOCK_BYTES):
                table = _parse_lines(request, file, block, wanted, only, start=start)

                def explain(
                    error: UserError, block: bytes = block, start: int = start, file: Path = file
                ) -> UserError:
                    return json_rows.explain_jsonl(
                        request, file, block, wanted, only, start=start, error=error
                    )

                yield FileBatch(table, Place(request.show(file), start), file, explain)
                start += table.num_rows

    return make_source(request, plan, width, stream)


def _parse_lines(
    request: Request, file: Path, block: bytes, plan: TablePlan, kinds: Mapping[str, str], *, start: int
) -> Any:
    from pyarrow import json  # shadows the standard library's name

    types = {name: _TYPES[kind] for name, kind in kinds.items()}
    for name in (*plan.labels, *plan.dividing):
        if kinds.get(name) == json_rows.A_NUMBER:
            types[name] = pa.float64()  # compared, or predicted, exactly
    schema = pa.schema([*types.items()])
    try:
        table = json.read_json(
            pa.BufferReader(block),
            read_options=json.ReadOptions(block_size=max(len(block), 1 << 10) + 1),
            parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        return table.select(schema.names).combine_chunks().to_batches()[0]
    except (*FAULTS, IndexError) as error:
        raise json_rows.explain_jsonl(request, file, block, plan, kinds, start=start, error=error) from None
