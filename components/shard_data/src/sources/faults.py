"""Finds the exact line of a fault. It is slow and runs only after a fast reader has failed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sources.common import BLOCK_BYTES, FAULTS, Request, first_line, open_data, unreadable
from wsshards.errors import UserError, clip_text

FILL = "fill or drop missing values before sharding"


class _Lines:
    """Yield the lines of a CSV file while they and their row are not too long.

    An unclosed quote makes the rest of the file one value.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream
        self._row = 0  # characters of the row so far
        self.number, self.first = 0, 1

    def __iter__(self) -> Iterator[str]:
        while line := self._stream.readline(BLOCK_BYTES + 1):
            self._row += len(line)
            if self._row > BLOCK_BYTES:
                raise csv.Error(f"it is longer than {BLOCK_BYTES:,} characters")
            self.number += 1
            yield line

    def rows(self) -> Iterator[list[str]]:
        """Yield the rows; `first` is the line on which a row begins."""
        reader = csv.reader(self)
        while True:
            self._row, self.first = 0, self.number + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            yield row


def _explain_line(request: Request, file: Path, lines: _Lines | None, error: object) -> UserError:
    if lines is None or not isinstance(error, csv.Error):
        return unreadable(request.show(file), error)
    reason = first_line(str(error))
    if "field larger" in reason:
        reason = f"a value is longer than {csv.field_size_limit():,} characters"
    return UserError(
        f"cannot read the row at line {lines.first} of `{request.show(file)}`: {reason}",
        "close every quote, and end every row with a line break",
    )


def csv_header(request: Request, file: Path) -> list[str]:
    """Read the column names of a CSV file.

    Raises:
        UserError: the file is empty, unreadable, or starts with a row of numbers.
    """
    lines = None
    try:
        with _open_text(file) as stream:
            lines = _Lines(stream)
            header = next(lines.rows(), [])
    except (*FAULTS, csv.Error) as error:
        raise _explain_line(request, file, lines, error) from None
    if not header:
        raise UserError(
            f"`{request.show(file)}` is empty", "give it a row of column names and at least one row"
        )
    if all(_number(cell) is not None for cell in header):
        raise UserError(
            f"`{request.show(file)}` has no header: its first row is all numbers", "add a row of column names"
        )
    return header


def explain_csv(request: Request, file: Path, columns: list[str], error: object) -> UserError:
    """Find the first line that a CSV reader cannot read and report what is wrong with it."""
    name = request.show(file)
    lines = None
    try:
        with _open_text(file) as stream:
            lines = _Lines(stream)
            rows = lines.rows()
            header = next(rows)
            places = {column: place for place, column in reversed([*enumerate(header)])}
            wanted = [(places[column], column) for column in columns]
            label = places[request.label]
            for row in rows:
                fault = _csv_fault(row, header, wanted, label) if row else None
                if fault:
                    return UserError(f"line {lines.number} of `{name}` {fault[0]}", fault[1])
    except (*FAULTS, csv.Error) as other:
        return _explain_line(request, file, lines, other)
    return unreadable(name, error)


def _csv_fault(
    row: list[str], header: list[str], wanted: list[tuple[int, str]], label: int
) -> tuple[str, str] | None:
    if len(row) != len(header):
        return f"has {len(row)} values, the header names {len(header)}", "give every row one value a column"
    for index, column in wanted:
        if row[index] == "":
            return f"has no value in column `{clip_text(column)}`", FILL
        value = _number(row[index])
        if value is None:
            text = clip_text(row[index])
            return (
                f"has `{text}` in feature column `{clip_text(column)}`, which is not a number",
                "list the numeric columns in `features`, or encode this one as numbers",
            )
        if not math.isfinite(value):
            return f"has `{clip_text(row[index])}` in column `{clip_text(column)}`, which is not finite", FILL
    return (f"has no label in column `{clip_text(header[label])}`", FILL) if row[label] == "" else None


def first_object(request: Request, file: Path) -> dict[str, Any]:
    """Read the first object of a JSON Lines file; raises UserError if there is none."""
    for block in line_blocks(request, file, 1 << 16):
        for line in block.splitlines():
            if line.strip():
                return _object(request, file, line, 1)
    raise UserError(f"`{request.show(file)}` has no rows", "give it one JSON object a line")


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


def json_type(request: Request, file: Path, name: str, value: object) -> Any:
    """Return the Arrow type of a feature, given its first value."""
    if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        return pa.list_(pa.float32())
    if isinstance(value, int | float):
        return pa.float32()
    raise UserError(
        f"row 1 of `{request.show(file)}` has `{_shown(value)}` in feature `{clip_text(name)}`, which is not"
        " a number",
        "list the numeric fields in `features`, or encode this one as numbers",
    )


def json_label_type(value: object) -> Any:
    """Return the Arrow type of a label, given its first value."""
    if isinstance(value, bool):
        return pa.bool_()
    return pa.int64() if isinstance(value, int) else pa.float64() if isinstance(value, float) else pa.string()


def explain_jsonl(
    request: Request, file: Path, block: bytes, schema: Any, *, start: int, error: object
) -> UserError:
    """Find the first line of a block that is not an object like that of the first line."""
    number = start
    for line in block.splitlines():
        if not line.strip():
            continue
        number += 1
        try:
            row = _object(request, file, line, number)
        except UserError as fault:
            return fault
        wrong = _json_fault(row, schema)
        if wrong:
            return UserError(
                f"row {number} of `{request.show(file)}` {wrong}", "give every field one kind of value"
            )
    return unreadable(request.show(file), first_line(str(error)))


def _json_fault(row: dict[str, Any], schema: Any) -> str | None:
    for field in schema:
        if field.name not in row:
            return f"has no field `{clip_text(field.name)}`"
        if not _fits(row[field.name], field.type):
            value, name = _shown(row[field.name]), clip_text(field.name)
            return f"has `{value}` in `{name}`, and the first row {field.type}"
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
        raise UserError(
            f"row {number} of `{request.show(file)}` is not JSON: {first_line(str(error))}",
            "write one JSON object a line",
        ) from None
    if not isinstance(row, dict):
        raise UserError(
            f"row {number} of `{request.show(file)}` is not a JSON object", "write one JSON object a line"
        )
    return row


def _fits(value: object, kind: Any) -> bool:
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_fits(item, kind.value_type) for item in value)
    if pa.types.is_boolean(kind):
        return isinstance(value, bool)
    if pa.types.is_string(kind):
        return isinstance(value, str)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _open_text(file: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_data(file), encoding="utf-8-sig", newline="")
