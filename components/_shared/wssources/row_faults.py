"""Finds the exact row of a fault: for the checker, and for the step after its fast reader has failed."""

from __future__ import annotations

import csv
import io
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wsshards.errors import UserError, clip_text
from wssources.request import BLOCK_BYTES, Request, first_line, open_data, unreadable

FILL = "fill or drop missing values before sharding"
# The kinds of value that a field of JSON Lines may have.
NUMBER, NUMBERS, WHOLE, BOOLEAN, TEXT = "a number", "a list of numbers", "a whole number", "a boolean", "text"
_FAULTS = (OSError, ValueError, EOFError, csv.Error, zlib.error)  # of damaged files
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


class _Lines:
    """Yield the lines of a CSV file while they and their row are not too long.

    An unclosed quote makes the rest of the file one value.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        self._stream = stream
        self._row = 0  # characters of the row so far
        self.number, self.first, self.total = 0, 1, 0

    def __iter__(self) -> Iterator[str]:
        while line := self._stream.readline(BLOCK_BYTES + 1):
            self._row += len(line)
            self.total += len(line)
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
    except _FAULTS as error:
        raise _explain_line(request, file, lines, error) from None
    if not header:
        raise UserError(
            f"`{request.show(file)}` is empty", "give it a row of column names and at least one row"
        )
    if len(header) == 1 and (other := next((sign for sign in _DELIMITERS if sign in header[0]), None)):
        raise UserError(
            f"the columns of `{request.show(file)}` are separated by {_DELIMITERS[other]}, and CSV by commas",
            "write it with commas",
        )
    if all(_number(cell) is not None for cell in header):
        raise UserError(
            f"`{request.show(file)}` has no header: its first row is all numbers", "add a row of column names"
        )
    return header


def explain_csv(request: Request, file: Path, columns: Sequence[str], error: object) -> UserError:
    """Find the first line that a CSV reader cannot read and report what is wrong with it."""
    try:
        for _ in read_csv_labels(request, file, columns):
            pass
    except UserError as fault:
        return fault
    return unreadable(request.show(file), error)


def read_csv_labels(
    request: Request, file: Path, columns: Sequence[str], most: float = math.inf
) -> Iterator[str]:
    """Yield the label of each row of a CSV file, up to the row that ends after `most` characters.

    Raises:
        UserError: for the first line that is not a row of numbers in `columns`, and a label.
    """
    lines = None
    try:
        with _open_text(file, errors="surrogateescape") as stream:  # other columns may hold anything
            lines = _Lines(stream)
            rows = lines.rows()
            header = next(rows)
            places = {column: place for place, column in reversed([*enumerate(header)])}
            wanted = [(places[column], column) for column in columns]
            label = places[request.label]
            for row in rows:
                fault = _csv_fault(row, header, wanted, label) if row else None
                if fault:
                    raise UserError(f"line {lines.number} of `{request.show(file)}` {fault[0]}", fault[1])
                if row:
                    yield row[label]
                if lines.total > most:
                    return
    except _FAULTS as error:
        raise _explain_line(request, file, lines, error) from None


def read_csv_cells(request: Request, file: Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row of a CSV file of text.

    Raises:
        UserError: for the first line that is not a row of the header's width, or not UTF-8.
    """
    lines = None
    try:
        with _open_text(file) as stream:
            lines = _Lines(stream)
            rows = lines.rows()
            next(rows)
            for row in rows:
                if row and len(row) != len(header):
                    raise UserError(
                        f"line {lines.number} of `{request.show(file)}` has {len(row)} values, but the header"
                        f" names {len(header)}",
                        "give every row one value per column",
                    )
                if row:
                    yield lines.number, row
    except _FAULTS as error:
        raise _explain_line(request, file, lines, error) from None


def _csv_fault(
    row: list[str], header: list[str], wanted: list[tuple[int, str]], label: int
) -> tuple[str, str] | None:
    if len(row) != len(header):
        return (
            f"has {len(row)} values, but the header names {len(header)}",
            "give every row one value per column",
        )
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
    return _label_fault(row[label], header[label])


def _label_fault(label: str, column: str) -> tuple[str, str] | None:
    if label == "":
        return f"has no label in column `{clip_text(column)}`", FILL
    if not label.isascii() and any("\udc80" <= character <= "\udcff" for character in label):
        return f"has a label in column `{clip_text(column)}` that is not UTF-8", "save the file as UTF-8"
    return None


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


def find_json_kinds(
    request: Request, file: Path, example: Mapping[str, Any], columns: Sequence[str]
) -> dict[str, str]:
    """Return the kind of value in each feature column, and last in the label, by the first row.

    Raises:
        UserError: a feature is not a number.
    """
    kinds = {name: _feature_kind(request, file, name, example[name]) for name in columns}
    label = example[request.label]
    exact = {bool: BOOLEAN, int: WHOLE, float: NUMBER}
    return kinds | {request.label: exact.get(type(label), TEXT)}


def _feature_kind(request: Request, file: Path, name: str, value: object) -> str:
    if isinstance(value, list) and value and all(isinstance(item, int | float) for item in value):
        return NUMBERS
    if isinstance(value, int | float):
        return NUMBER
    raise UserError(
        f"row 1 of `{request.show(file)}` has `{_shown(value)}` in feature `{clip_text(name)}`, which is not"
        " a number",
        "list the numeric fields in `features`, or encode this one as numbers",
    )


def explain_jsonl(
    request: Request, file: Path, block: bytes, kinds: Mapping[str, str], *, start: int, error: object
) -> UserError:
    """Find the first line of a block that is not an object like that of the first line."""
    try:
        for _ in read_json_rows(request, file, block, kinds, start):
            pass
    except UserError as fault:
        return fault
    return unreadable(request.show(file), first_line(str(error)))


def read_json_rows(
    request: Request, file: Path, block: bytes, kinds: Mapping[str, str], start: int
) -> Iterator[dict[str, Any]]:
    """Yield the objects in a block of lines, which begins behind row `start`.

    Raises:
        UserError: for the first line that is not an object with values of these kinds.
    """
    number = start
    for line in block.splitlines():
        if not line.strip():
            continue
        number += 1
        row = _object(request, file, line, number)
        wrong = _json_fault(row, kinds)
        if wrong:
            raise UserError(
                f"row {number} of `{request.show(file)}` {wrong}", "give every field one kind of value"
            )
        yield row


def _json_fault(row: Mapping[str, Any], kinds: Mapping[str, str]) -> str | None:
    for field, kind in kinds.items():
        name = clip_text(field)
        if field not in row:
            return f"has no field `{name}`"
        if row[field] is None:
            return f"has no value in column `{name}`"
        if not _fits(row[field], kind):
            return f"has `{_shown(row[field])}` in `{name}`, and the first row {kind}"
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
    if kind == NUMBERS:
        return isinstance(value, list) and all(_fits(item, NUMBER) for item in value)
    if kind == BOOLEAN:
        return isinstance(value, bool)
    if kind == TEXT:
        return isinstance(value, str)
    if kind == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _open_text(file: Path, *, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(open_data(file), encoding="utf-8-sig", errors=errors, newline="")


def check_rows(train: int, rows: Sequence[int], names: Sequence[str], source: str, shard_count: int) -> None:
    """Refuse data from which nothing can be learned, or with fewer rows than shards.

    Args:
        train: rows of the training split.
        rows: rows of each class.
        names: of the classes, none for a language model.
        source: what the user calls the data.
        shard_count: of the training split.

    Raises:
        UserError: saying the numbers.
    """
    total, called = sum(rows), f"`{source}`"
    if total == 0:
        raise UserError(f"{called} has no rows", "give it at least one row for each shard")
    if len(names) == 1:
        raise UserError(
            f"all {total:,} rows of {called} have the label `{clip_text(names[0])}`",
            "a classifier needs at least two classes",
        )
    if train < shard_count:
        raise UserError(
            f"{called} has {train:,} training rows, but `shard_count` is {shard_count:,}",
            "use fewer processes or more data: every shard needs a row",
        )
