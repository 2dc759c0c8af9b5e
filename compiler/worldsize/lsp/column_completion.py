"""Completion of column names: those of the table that a step of `shard_data` reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from lsprotocol import types

from worldsize.azureml.references import local_path
from worldsize.data.tables import read_table
from worldsize.lsp.analysis import Analysis
from worldsize.lsp.cursor import Cursor
from worldsize.lsp.names import Names
from wsshards.errors import UserError
from wssources.formats import TABLES

_ONE, _MANY = frozenset({"split_by", "split_time", "text"}), frozenset({"features", "label"})
_MOST = 200  # columns
_PLAIN = re.compile(r"[A-Za-z_](?:[\w .-]*\w)?")  # needs no quotes, neither in YAML nor in a list


def complete_column(
    names: Names, analysis: Analysis, step: str, cursor: Cursor
) -> Iterator[types.CompletionItem]:
    """The columns that an input may name; of a list of them, the one that is typed last."""
    key = str(cursor.path[-1])
    is_of_table = names.outline.value(names.steps_key, step, "uses") == "shard_data"
    if analysis.run is None or not is_of_table or (key not in _ONE and key not in _MANY):
        return
    data = (names.steps_key, step, names.inputs_key, "data")
    place = names.outline.value(*data, "path") or names.outline.value(*data)
    path = local_path(place, Path(names.path).parent) if place else None
    if path is None or path.suffix.lower() not in TABLES or not analysis.run.context.inside(path):
        return
    before = cursor.typed[: cursor.typed.rfind(",") + 1] if key in _MANY else ""
    given = before.split(",")
    for name in _list_columns(path)[:_MOST]:
        if name not in given and _PLAIN.fullmatch(name):
            yield types.CompletionItem(before + name, kind=types.CompletionItemKind.Field, detail="column")


def _list_columns(path: Path) -> tuple[str, ...]:
    try:
        status = path.stat()
        return _read_columns(path, status.st_mtime_ns, status.st_size)
    except (UserError, OSError, ValueError):
        return ()


@lru_cache(maxsize=16)
def _read_columns(path: Path, _changed: int, _size: int) -> tuple[str, ...]:
    """The columns of a table; another time or size is another table."""
    return read_table(path).columns
