"""Reads JSON Lines row by row: the first rows, and the exact row of a fault."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER, REGRESSION
from wssources.column_kinds import parse_date
from wssources.request import BLOCK_BYTES, REFUSE, Request, first_line, open_data, unreadable
from wssources.table_plan import (
    FILL_HELP,
    LABEL_HELP,
    Head,
    TablePlan,
    describe_no_date,
    leaves_out,
    may_miss,
)

_HEAD_FILES = 100
ONE_KIND = "give every field one kind of value"

# The kinds of value that a field may have.
A_NUMBER, NUMBERS, WHOLE, A_BOOLEAN, TEXT = (
    "a number",
    "a list of numbers",
    "a whole number",
    "a boolean",
    "text",
)
TEXTS = "a list of texts"
OBJECT_HELP = "write its values as fields of their own, or leave it out of `features`"
_BY_KIND = {NUMBER: A_NUMBER, BOOLEAN: A_BOOLEAN, CATEGORY: TEXT, DATE: TEXT}


def first_object(request: Request, file: Path) -> dict[str, Any]:
    """Read the first object of a JSON Lines file; raises UserError if there is none."""
    for block in line_blocks(request, file, 1 << 16):
        for line in block.splitlines():
            if line.strip():
                return _object(request, file, line, 1)
    raise UserError(f"`{request.show(file)}` has no rows", "write one JSON object per line")


def line_blocks(request: Request, file: Path, size: int) -> Iterator[bytes]:
    """Yield the file in pieces of about `size` bytes of whole lines, none longer than `BLOCK_BYTES`."""
    done = 0
    try:
        with open_data(file) as stream:
            rest = b""
            while data := stream.read(size):
                head, newline, tail = data.rpartition(b"\n")
                if newline:
                    block, rest = rest + head + newline, tail
                    done += block.count(newline)
                    yield block
                else:
                    rest += data
                if len(rest) > BLOCK_BYTES:
                    raise UserError(
                        f"line {done + 1} of `{request.show(file)}` is longer than {BLOCK_BYTES:,} bytes",
                        "write one JSON object a line",
                    )
            if rest.strip():
                yield rest
    except OSError as error:
        raise unreadable(request.show(file), error) from None


def _shown(value: object) -> str:
    try:
        return clip_text(json.dumps(value), 40)
    except RecursionError:
        return "[…]"


def read_json_head(request: Request, files: Sequence[Path], most_bytes: int) -> Head:
    """Read the first objects of JSON Lines files; the columns are the fields of the first.

    Raises:
        UserError: the first line that is not empty is no JSON object.
    """
    head = Head(list(first_object(request, files[0])))
    for number, file in enumerate(files):
        read = 0
        for block in line_blocks(request, file, 1 << 16):
            for line in block.splitlines():
                if len(head.rows) >= head.most:
                    head.complete = False
                    return head
                if line.strip():
                    try:
                        row = json.loads(line)
                        head.rows.append([row.get(name) for name in head.columns])
                    except (ValueError, RecursionError, AttributeError):
                        return head  # the reader of all rows says what is wrong
            read += len(block)
            if read > most_bytes or number > _HEAD_FILES:
                head.complete = False
                return head
    return head


def find_json_kinds(plan: TablePlan, head: Head) -> dict[str, str]:
    """Return the kind of value that each planned field has."""
    kinds = {name: _BY_KIND[kind] for name, kind in plan.features.items()}
    if plan.listed:
        kinds[plan.listed] = NUMBERS
    for name in plan.names:
        if name not in kinds:
            kinds[name] = _find_kind(head.values(name))
    if plan.decision.task == REGRESSION:
        kinds |= dict.fromkeys(plan.labels, A_NUMBER)
    return kinds


def _find_kind(values: Sequence[Any]) -> str:
    first = next((value for value in values if value is not None), None)
    if isinstance(first, list):
        item = next((each[0] for each in values if isinstance(each, list) and each), "")
        return TEXTS if isinstance(item, str) else NUMBERS
    found = {bool: A_BOOLEAN, int: WHOLE, float: A_NUMBER}.get(type(first), TEXT)
    # Whole numbers beside others are numbers.
    return A_NUMBER if found == WHOLE and any(isinstance(value, float) for value in values) else found


def explain_jsonl(
    request: Request,
    file: Path,
    block: bytes,
    plan: TablePlan,
    kinds: Mapping[str, str],
    *,
    start: int,
    error: object,
) -> UserError:
    """Find the first line of a block that is not an object as planned."""
    try:
        for _ in read_json_rows(request, file, block, plan, kinds, start=start):
            pass
    except UserError as fault:
        return fault
    if isinstance(error, UserError):
        return error
    return unreadable(request.show(file), first_line(str(error)))


def read_json_rows(
    request: Request, file: Path, block: bytes, plan: TablePlan, kinds: Mapping[str, str], *, start: int
) -> Iterator[dict[str, Any] | None]:
    """Yield the objects in a block of lines, which begins behind row `start`; None for a row that is dropped.

    Raises:
        UserError: for the first line that is not an object with values of these kinds.
    """
    number = start
    for line in block.splitlines():
        if not line.strip():
            continue
        number += 1
        row = _object(request, file, line, number)
        missing = {name for name in kinds if row.get(name) is None}
        wrong = _json_fault(row, plan, kinds, missing)
        if wrong:
            raise UserError(f"row {number} of `{request.show(file)}` {wrong[0]}", wrong[1])
        yield None if any(leaves_out(plan, name) for name in missing) else row


def _describe_misfit(value: Any, name: str, kind: str) -> tuple[str, str]:
    if isinstance(value, dict):
        return f"has the object `{_shown(value)}` in `{name}`", OBJECT_HELP
    return f"has `{_shown(value)}` in `{name}`, and the first row {kind}", ONE_KIND


def _json_fault(
    row: Mapping[str, Any], plan: TablePlan, kinds: Mapping[str, str], missing: set[str]
) -> tuple[str, str] | None:
    for field, kind in kinds.items():
        name = clip_text(field)
        if field in missing:
            if may_miss(plan, field):
                continue
            if field not in row:
                return f"has no field `{name}`", FILL_HELP
            help_ = LABEL_HELP if field in plan.labels else FILL_HELP
            return f"has no value in column `{name}`", help_
        if not _fits(row[field], kind):
            return _describe_misfit(row[field], name, kind)
        form = plan.date_forms.get(field, "")
        if plan.features.get(field) == DATE and parse_date(row[field], form) is None:
            what, help_ = describe_no_date(name, row[field], form)
            return f"has `{_shown(row[field])}` in column `{name}`, {what}", help_
        if isinstance(row[field], float) and not math.isfinite(row[field]) and plan.missing == REFUSE:
            return f"has `{row[field]}` in column `{name}`, which is not finite", FILL_HELP
    return None


def _object(request: Request, file: Path, line: bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except RecursionError:
        raise UserError(
            f"row {number} of `{request.show(file)}` is nested too deeply to be read",
            "write one JSON object a line, with numbers or one list of numbers in its fields",
        ) from None
    except ValueError as error:
        reason = (
            f"{error.msg} in column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        )
        raise UserError(
            f"row {number} of `{request.show(file)}` is not JSON: {first_line(reason)}",
            "write one JSON object a line",
        ) from None
    if not isinstance(row, dict):
        raise UserError(
            f"row {number} of `{request.show(file)}` is not a JSON object", "write one JSON object a line"
        )
    return row


def _fits(value: object, kind: str) -> bool:
    if kind in (NUMBERS, TEXTS):
        item_kind = A_NUMBER if kind == NUMBERS else TEXT
        return isinstance(value, list) and all(_fits(item, item_kind) for item in value)
    if kind == A_BOOLEAN:
        return isinstance(value, bool)
    if kind == TEXT:
        return isinstance(value, str)
    if kind == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)
