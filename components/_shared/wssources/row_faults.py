"""Finds the exact row of a fault in CSV, for the checker and for the step whose fast reader has failed."""

from __future__ import annotations

import csv
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, DATE, MULTI_LABEL, NUMBER, REGRESSION
from wssources.column_kinds import MISSING_NUMBERS, parse_date
from wssources.request import BLOCK_BYTES, REFUSE, Request, first_line, open_data, unreadable
from wssources.table_plan import (
    FILL_HELP,
    KIND_HELP,
    LABEL_HELP,
    Head,
    TablePlan,
    describe_no_date,
    leaves_out,
    may_miss,
)
from wssources.tasks import BOOLEANS

_FAULTS = (OSError, ValueError, EOFError, csv.Error, zlib.error)  # of damaged files
_NOT_UTF8 = UnicodeDecodeError("utf-8", b"", 0, 0, "")
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
        with _open_text(file, errors="surrogateescape") as stream:  # the rows are judged one by one
            lines = _Lines(stream)
            header = next(lines.rows(), [])
    except _FAULTS as error:
        raise _explain_line(request, file, lines, error) from None
    if not header:
        raise UserError(
            f"`{request.show(file)}` is empty", "give it a row of column names and at least one row"
        )
    if any(map(_is_broken, header)):
        raise unreadable(request.show(file), _NOT_UTF8)
    if len(header) == 1 and (other := next((sign for sign in _DELIMITERS if sign in header[0]), None)):
        raise UserError(
            f"the columns of `{request.show(file)}` are separated by {_DELIMITERS[other]}, and CSV by commas",
            f"write it with commas: `pandas.read_csv(…, sep={other!r}).to_csv(…, index=False)`, with"
            " `decimal=','` for decimal commas",
        )
    if all(_number(cell) is not None for cell in header):
        raise UserError(
            f"`{request.show(file)}` has no header: its first row is all numbers", "add a row of column names"
        )
    return header


def read_csv_head(request: Request, files: Sequence[Path], most_bytes: int) -> Head:
    """Read the first rows of CSV files; rows with too many or too few values are left out.

    Raises:
        UserError: the first file has no header, or a file cannot be read.
    """
    header = csv_header(request, files[0])
    head = Head(header, cells=True)
    total = 0
    for file in files:
        lines = None
        try:
            with _open_text(file, errors="surrogateescape") as stream:
                lines = _Lines(stream)
                rows = lines.rows()
                own = next(rows, [])
                order = [own.index(name) if name in own else -1 for name in header] if own != header else None
                for row in rows:
                    if len(head.rows) >= head.most or total + lines.total > most_bytes:
                        head.complete = False
                        return head
                    if len(row) == len(own):
                        head.rows.append(
                            row if order is None else [row[place] if place >= 0 else "" for place in order]
                        )
        except _FAULTS:
            return head  # the reader of all rows says what is wrong
        total += lines.total
    return head


def explain_csv(request: Request, file: Path, plan: TablePlan, error: object) -> UserError:
    """Find the first line that a CSV reader cannot read and report what is wrong with it."""
    try:
        for _ in read_csv_rows(request, file, plan):
            pass
    except UserError as fault:
        return fault
    return error if isinstance(error, UserError) else unreadable(request.show(file), error)


def read_csv_rows(
    request: Request, file: Path, plan: TablePlan, most: float = math.inf
) -> Iterator[dict[str, str] | None]:
    """Yield the planned cells of each row of a CSV file, up to the row that ends after `most` characters.

    A row that is dropped is None.

    Raises:
        UserError: for the first line that is not a row of the plan.
    """
    lines = None
    try:
        with _open_text(file, errors="surrogateescape") as stream:  # other columns may hold anything
            lines = _Lines(stream)
            rows = lines.rows()
            header = next(rows)
            places = {column: place for place, column in reversed([*enumerate(header)])}
            for row in rows:
                _check_width(request, file, row, header, lines)
                if row:
                    yield _check_cells(request, file, plan, row, places, number=lines.number)
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
                _check_width(request, file, row, header, lines)
                if row:
                    yield lines.number, row
    except _FAULTS as error:
        raise _explain_line(request, file, lines, error) from None


def _check_width(request: Request, file: Path, row: list[str], header: Sequence[str], lines: _Lines) -> None:
    """Refuse a row that is not empty and has another number of cells than the header; raises UserError."""
    if not row or len(row) == len(header):
        return
    if lines.number > lines.first:
        raise UserError(
            f"a quote that opens at line {lines.first} of `{request.show(file)}` takes in everything up to"
            f" line {lines.number}",
            "close every quote, and write a quote within a value twice",
        )
    values = "1 value" if len(row) == 1 else f"{len(row)} values"
    raise UserError(
        f"line {lines.number} of `{request.show(file)}` has {values}, but the header names {len(header)}",
        "give every row one value per column",
    )


def _check_cells(
    request: Request, file: Path, plan: TablePlan, row: list[str], places: dict[str, int], *, number: int
) -> dict[str, str] | None:
    """Return the cells of a row, or None if it is dropped; raises UserError."""
    cells = {name: row[places[name]] for name in plan.names}
    dropped = False
    for name, cell in cells.items():
        shown = f"`{clip_text(name)}`"
        if _is_missing(plan, name, cell):
            if may_miss(plan, name):
                dropped = dropped or leaves_out(plan, name)
                continue
            is_label = name in plan.labels
            what, help_ = ("label", LABEL_HELP) if is_label else ("value", FILL_HELP)
            fault = f"has no {what} in column {shown}"
        else:
            fault, help_ = (_label_fault if name in plan.labels else _cell_fault)(plan, name, cell)
        if fault:
            raise UserError(f"line {number} of `{request.show(file)}` {fault}", help_)
    return None if dropped else cells


def _is_missing(plan: TablePlan, name: str, cell: str) -> bool:
    kind = plan.features.get(name)
    is_target = name in plan.labels and plan.decision.task == REGRESSION
    text = not is_target if kind is None else kind == CATEGORY
    if cell == "" or text or cell not in MISSING_NUMBERS:
        return cell == ""
    return plan.missing != REFUSE or _number(cell) is None


def _cell_fault(plan: TablePlan, name: str, cell: str) -> tuple[str, str]:
    """Return what is wrong with the cell of a feature, or of what divides the rows, and how to correct it."""
    shown, column = f"`{clip_text(cell)}`", f"column `{clip_text(name)}`"
    bounds = plan.bounds if name == plan.time else None
    window = plan.window if plan.window and name == plan.window.column else None
    kind = plan.features.get(name) or (bounds.kind if bounds else DATE if window else "")
    form = plan.date_forms.get(name) or (bounds.form if bounds else window.form if window else "")
    if _is_broken(cell):
        return f"has a value in {column} that is not UTF-8", "save the file as UTF-8"
    if kind == NUMBER:
        value = _number(cell)
        if value is None:
            return f"has {shown} in feature {column}, which is not a number", KIND_HELP[kind]
        if not math.isfinite(value):
            return f"has {shown} in {column}, which is not finite", FILL_HELP
    elif kind == BOOLEAN and cell.lower() not in BOOLEANS:
        return f"has {shown} in {column}, which is neither true nor false", KIND_HELP[kind]
    elif kind == DATE and parse_date(cell, form) is None:
        what, help_ = describe_no_date(name, cell, form)
        return f"has {shown} in {column}, {what}", help_
    return "", ""


def _label_fault(plan: TablePlan, name: str, cell: str) -> tuple[str, str]:
    shown, label = f"`{clip_text(cell)}`", f"label `{clip_text(name)}`"
    if plan.decision.task == REGRESSION:
        value = _number(cell)
        if value is None or not math.isfinite(value):
            wrong = "not a number" if value is None else "not finite"
            return f"has {shown} in {label}, which is {wrong}", "correct it, or leave the row out"
    elif plan.decision.task == MULTI_LABEL and not plan.decision.several:
        if cell.lower() not in BOOLEANS and _number(cell) not in (0, 1):
            return f"has {shown} in {label}, which is neither 0 nor 1", "correct it"
    elif _is_broken(cell):
        return f"has a label in column `{clip_text(name)}` that is not UTF-8", "save the file as UTF-8"
    return "", ""


def _is_broken(text: str) -> bool:
    return not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text)


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
