"""Finding the exact line of a fault: slow and careful, and only run once a fast reader has given up."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from sources.common import Request, first_line, unreadable
from wsshards.errors import UserError

FILL = "fill or drop missing values before sharding"


def csv_header(request: Request, file: Path) -> list[str]:
    """The column names of a CSV file.

    Raises:
        UserError: the file is empty, unreadable, or starts with a row of numbers.
    """
    try:
        with _open_text(file) as stream:
            header = next(csv.reader(stream), [])
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        raise unreadable(request.show(file), error) from None
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
    """Find the first line that a CSV reader cannot take and say what is wrong there."""
    name = request.show(file)
    try:
        with _open_text(file) as stream:
            reader = csv.reader(stream)
            header = next(reader)
            wanted = [(header.index(column), column) for column in columns]
            label = header.index(request.label)
            for row in reader:
                fault = _csv_fault(row, header, wanted, label) if row else None
                if fault:
                    return UserError(f"line {reader.line_num} of `{name}` {fault[0]}", fault[1])
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as other:
        return unreadable(name, other)
    return unreadable(name, error)


def _csv_fault(
    row: list[str], header: list[str], wanted: list[tuple[int, str]], label: int
) -> tuple[str, str] | None:
    if len(row) != len(header):
        return f"has {len(row)} values, the header names {len(header)}", "give every row one value a column"
    for index, column in wanted:
        if row[index] == "":
            return f"has no value in column `{column}`", FILL
        value = _number(row[index])
        if value is None:
            return (
                f"has `{row[index]}` in feature column `{column}`, which is not a number",
                "list the numeric columns in `features`, or encode this one as numbers",
            )
        if not math.isfinite(value):
            return f"has `{row[index]}` in column `{column}`, which is not finite", FILL
    return (f"has no label in column `{header[label]}`", FILL) if row[label] == "" else None


def first_object(request: Request, file: Path) -> dict[str, Any]:
    """The first object of a JSON Lines file; raises UserError when there is none."""
    for block in line_blocks(request, file, 1 << 16):
        for line in block.splitlines():
            if line.strip():
                return _object(request, file, line, 1)
    raise UserError(f"`{request.show(file)}` has no rows", "give it one JSON object a line")


def line_blocks(request: Request, file: Path, size: int) -> Iterator[bytes]:
    """The file in pieces of about `size` bytes that end with whole lines."""
    try:
        with _open_binary(file) as stream:
            rest = b""
            while data := stream.read(size):
                head, newline, tail = data.rpartition(b"\n")
                if newline:
                    yield rest + head + newline
                    rest = tail
                else:
                    rest += data
            if rest.strip():
                yield rest
    except (OSError, EOFError) as error:
        raise unreadable(request.show(file), error) from None


def json_type(request: Request, file: Path, name: str, value: object) -> Any:
    """The Arrow type of a feature, from the first value seen."""
    if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        return pa.list_(pa.float32())
    if isinstance(value, int | float):
        return pa.float32()
    shown = json.dumps(value)[:40]
    raise UserError(
        f"row 1 of `{request.show(file)}` has `{shown}` in feature `{name}`, which is not a number",
        "list the numeric fields in `features`, or encode this one as numbers",
    )


def json_label_type(value: object) -> Any:
    """The Arrow type of a label, from the first value seen."""
    if isinstance(value, bool):
        return pa.bool_()
    return pa.int64() if isinstance(value, int) else pa.float64() if isinstance(value, float) else pa.string()


def explain_jsonl(
    request: Request, file: Path, block: bytes, schema: Any, *, start: int, error: object
) -> UserError:
    """Find the first line of a block that is not an object of the first line's shape."""
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
            return f"has no field `{field.name}`"
        if not _fits(row[field.name], field.type):
            shown = json.dumps(row[field.name])[:40]
            return f"has `{shown}` in `{field.name}`, and the first row {field.type}"
    return None


def _object(request: Request, file: Path, line: bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
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


def _open_binary(file: Path) -> IO[bytes]:
    stream = gzip.open(file) if file.suffix == ".gz" else file.open("rb")  # noqa: SIM115  callers close it
    return cast("IO[bytes]", stream)


def _open_text(file: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_open_binary(file), encoding="utf-8-sig", newline="")
