"""What the transformations of an `MLTable` do to its rows, one after the other, over all of its files."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, DATE, NUMBER
from wssources.column_kinds import parse_moment
from wssources.input_error import suggest
from wssources.mltable import EXTRACT, FILE, PATH_COLUMN

Row = dict[str, Any]
# What each `column_type` is to training.
KINDS = {"string": CATEGORY, "int": NUMBER, "float": NUMBER, "boolean": BOOLEAN, "datetime": DATE}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_JOIN: dict[type[ast.operator], Callable[[bool, bool], bool]] = {
    ast.BitAnd: lambda a, b: a and b,
    ast.BitOr: lambda a, b: a or b,
}
_FILTER_HELP = 'write it as `col("x") > 1 and col("y") == "a"`'
_LONGEST_FILTER = 2_000  # characters
_PLACEHOLDER = re.compile(r"\{([^{}:]+)(:[^{}]*)?\}")  # `{Store}`, or a date `{day:yyyy/MM/dd}`


class TableSteps:
    """The transformations behind the reader of a table; counts rows over all files.

    Args:
        changes: names and settings, in order.
        cells: whether values are cells of text, which may stand for numbers.
        has_path: whether the column of paths is wanted, not only what is extracted from it.

    Raises:
        UserError: the settings of one make no sense.
    """

    def __init__(self, changes: Sequence[tuple[str, Any]], *, cells: bool, has_path: bool = False) -> None:
        self._cells, self._has_path = cells, has_path
        self.needs_path = has_path or any(name == EXTRACT for name, _ in changes)
        self.column_types: dict[str, str] = {}  # by the word of the table, one of `KINDS`
        self.finished = False  # no further row can follow
        makers: dict[str, Callable[[Any], Callable[[Row], Row | None]]] = {
            "keep_columns": self._keep,
            "drop_columns": self._drop,
            "take": self._take,
            "skip": self._skip,
            "filter": self._filter,
            "convert_column_types": self._convert,
            EXTRACT: self._extract,
        }
        self._steps = [makers[name](settings) for name, settings in changes]
        self._named = [(name, names) for name, names in self._columns_of(changes)]

    def __bool__(self) -> bool:
        return bool(self._steps)

    @staticmethod
    def _columns_of(changes: Sequence[tuple[str, Any]]) -> list[tuple[str, list[str]]]:
        return [(name, _read_columns(name, value)) for name, value in changes if name in _OF_COLUMNS]

    def select_columns(self, columns: Sequence[str]) -> list[str]:
        """Return the columns that are left at the end; raises UserError if a step names another."""
        there = list(columns)
        for name, wanted in self._named:
            missing = next((each for each in wanted if each not in there), None)
            if missing is not None:
                raise UserError(
                    f"`{name}` in `{FILE}` names `{clip_text(missing)}`, which is no column of the table",
                    suggest(missing, there),
                )
            if name == "keep_columns":
                there = wanted
            elif name == "drop_columns":
                there = [each for each in there if each not in wanted]
            elif name == EXTRACT:
                there = list(dict.fromkeys([*self._without_path(there), *self._extracted]))
        if not there:
            raise UserError(f"`drop_columns` in `{FILE}` leaves no column", "keep at least two")
        self.column_types = {name: kind for name, kind in self.column_types.items() if name in there}
        return there

    def apply(self, row: Row) -> Row | None:
        """Return what becomes of a row, or None if it is left out."""
        for step in self._steps:
            made = step(row)
            if made is None:
                return None
            row = made
        return row

    def _keep(self, settings: Any) -> Callable[[Row], Row | None]:
        names = _read_columns("keep_columns", settings)
        return lambda row: {name: row.get(name) for name in names}

    def _drop(self, settings: Any) -> Callable[[Row], Row | None]:
        names = frozenset(_read_columns("drop_columns", settings))
        return lambda row: {name: value for name, value in row.items() if name not in names}

    def _take(self, settings: Any) -> Callable[[Row], Row | None]:
        left = _read_count("take", settings)

        def take(row: Row) -> Row | None:
            nonlocal left
            left -= 1
            self.finished = self.finished or left <= 0
            return row if left >= 0 else None

        self.finished = self.finished or left == 0
        return take

    def _skip(self, settings: Any) -> Callable[[Row], Row | None]:
        left = _read_count("skip", settings)

        def skip(row: Row) -> Row | None:
            nonlocal left
            left -= 1
            return row if left < 0 else None

        return skip

    def _filter(self, settings: Any) -> Callable[[Row], Row | None]:
        test = parse_filter(settings, cells=self._cells)
        return lambda row: row if test(row) else None

    def _convert(self, settings: Any) -> Callable[[Row], Row | None]:
        changes: dict[str, Callable[[Any], Any]] = {}
        for entry in settings if isinstance(settings, list) else [settings]:
            word, change = _read_column_type(entry)
            for name in _read_columns("convert_column_types", entry):
                self.column_types[name] = word
                if change is not None:
                    changes[name] = change
        if not changes:
            return lambda row: row
        return lambda row: {
            name: changes[name](value) if name in changes and value is not None else value
            for name, value in row.items()
        }

    def _extract(self, settings: Any) -> Callable[[Row], Row | None]:
        expression, names = _read_partition_format(settings)
        self._extracted = names
        self.column_types |= dict.fromkeys(names, "string")

        @lru_cache(maxsize=1)  # the rows of a file follow each other
        def read_path(path: str) -> Row:
            match = expression.search(path)
            if match is None:
                raise UserError(
                    f"`{clip_text(path)}` does not fit the `partition_format` in `{FILE}`",
                    "name its last folders and the file, such as `{year}/{file_name}.csv`",
                )
            return dict(zip(names, match.groups(), strict=True))

        return lambda row: {
            **{name: row[name] for name in self._without_path(row)},
            **read_path(row[PATH_COLUMN]),
        }

    def _without_path(self, columns: Iterable[str]) -> list[str]:
        return [name for name in columns if self._has_path or name != PATH_COLUMN]


_OF_COLUMNS = ("keep_columns", "drop_columns", "convert_column_types", "filter", EXTRACT)


def _read_columns(step: str, settings: Any) -> list[str]:
    if step == "filter":
        return find_filter_columns(settings)
    if step == EXTRACT:
        return [PATH_COLUMN]
    if step == "convert_column_types" and isinstance(settings, list):
        return [name for entry in settings for name in _read_columns(step, entry)]
    named = settings.get("columns") if isinstance(settings, dict) else settings
    names = named if isinstance(named, list) else [named]
    if not names or not all(isinstance(name, str | int) and not isinstance(name, bool) for name in names):
        raise UserError(f"`{step}` in `{FILE}` names no columns", f"write `- {step}: [a, b]`")
    return [str(name) for name in names]


def _read_count(step: str, settings: Any) -> int:
    count = settings.get("count") if isinstance(settings, dict) else settings
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UserError(
            f"`{step}` in `{FILE}` is `{clip_text(str(count))}`, not a number of rows",
            f"write `- {step}: 100`",
        )
    return count


def _read_partition_format(settings: Any) -> tuple[re.Pattern[str], list[str]]:
    """Return what finds columns in a path, such as `{Store}/{file_name}.csv`, and their names."""
    text = settings.get("partition_format") if isinstance(settings, dict) else None
    pieces = _PLACEHOLDER.split(text.lstrip("/")) if isinstance(text, str) else []  # text, name, date, text …
    if len(pieces) < 2 or any(pieces[2::3]):
        raise UserError(
            f"`partition_format` in `{FILE}` is `{clip_text(str(text))}`, and only plain names are read",
            "write it as `{Store}/{file_name}.{extension}`, without formats of dates",
        )
    parts = ["([^/]+?)" if at % 3 else re.escape(piece) for at, piece in enumerate(pieces) if at % 3 != 2]
    return re.compile(rf"(?:^|/){''.join(parts)}$"), pieces[1::3]


def _read_column_type(entry: Any) -> tuple[str, Callable[[Any], Any] | None]:
    """Return the word of a `column_type`, and how values become it."""
    asked = entry.get("column_type") if isinstance(entry, dict) else None
    word, settings = next(iter(asked.items())) if isinstance(asked, dict) and asked else (asked, None)
    if word not in KINDS:
        raise UserError(f"`column_type` in `{FILE}` is `{clip_text(str(word))}`", suggest(str(word), KINDS))
    values = settings if isinstance(settings, dict) else {}
    if word == "datetime" and values.get("formats"):
        formats = [str(each) for each in _as_list(values["formats"])]
        return word, lambda value: _to_iso(value, formats)
    if word == "boolean" and (values.get("true_values") or values.get("false_values")):
        words = dict.fromkeys(map(str, _as_list(values.get("true_values"))), "true")
        words |= dict.fromkeys(map(str, _as_list(values.get("false_values"))), "false")
        return word, lambda value: words.get(str(value), value)
    return word, None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _to_iso(value: Any, formats: Sequence[str]) -> Any:
    """Return a date in ISO 8601, or the value if no format fits."""
    moments = (parse_moment(str(value), form) for form in formats)
    return next((moment.isoformat() for moment in moments if moment), value)


def find_filter_columns(text: Any) -> list[str]:
    """Return the columns that a filter compares; raises UserError if it is none."""
    names: list[str] = []
    for node in ast.walk(_parse_filter(text)):
        name = _column_of(node)
        if name is not None:
            names.append(name)
    return list(dict.fromkeys(names))


def parse_filter(text: Any, *, cells: bool) -> Callable[[Row], bool]:
    """Return the test that a filter makes of a row: comparisons of `col("x")` with `and`, `or` and `not`.

    Args:
        text: of the filter.
        cells: whether values are cells of text, which are compared with a number as numbers.

    Raises:
        UserError: it is something else.
    """
    return _compile(_parse_filter(text), str(text), cells=cells)


def _parse_filter(text: Any) -> ast.expr:
    if not isinstance(text, str) or len(text) > _LONGEST_FILTER:
        raise UserError(f"`filter` in `{FILE}` is `{clip_text(str(text))}`", _FILTER_HELP)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UserError(f"`filter` in `{FILE}` is `{clip_text(text)}`", _FILTER_HELP) from None


def _compile(node: ast.expr, text: str, *, cells: bool) -> Callable[[Row], bool]:
    if isinstance(node, ast.BoolOp):
        tests = [_compile(each, text, cells=cells) for each in node.values]
        combine = all if isinstance(node.op, ast.And) else any
        return lambda row: combine(test(row) for test in tests)
    if isinstance(node, ast.BinOp) and type(node.op) in _JOIN:
        left, right = (_compile(each, text, cells=cells) for each in (node.left, node.right))
        join = _JOIN[type(node.op)]
        return lambda row: join(left(row), right(row))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        test = _compile(node.operand, text, cells=cells)
        return lambda row: not test(row)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        column, constant = _column_of(node.left), _constant_of(node.comparators[0])
        if column is not None and constant is not None:
            return _compare(column, _COMPARE[type(node.ops[0])], constant, cells=cells)
    raise UserError(f"`filter` in `{FILE}` is `{clip_text(text)}`, which is not supported", _FILTER_HELP)


def _compare(
    column: str, compare: Callable[[Any, Any], bool], constant: Any, *, cells: bool
) -> Callable[[Row], bool]:
    def test(row: Row) -> bool:
        value = row.get(column)
        if cells and not isinstance(constant, str):
            value = _to_number(value)
        if value is None or value == "":
            return False
        try:
            return bool(compare(value, constant))
        except TypeError:  # text against a number
            return False

    return test


def _to_number(cell: Any) -> float | None:
    words: Mapping[str, float] = {"true": 1.0, "false": 0.0}
    try:
        number = words.get(str(cell).lower())
        number = float(cell) if number is None else number
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def _column_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "col" and len(node.args) == 1:
        argument = node.args[0]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
    return None


def _constant_of(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, str | int | float) else None
