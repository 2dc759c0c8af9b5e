"""What calls of libraries do, and which variables a launcher sets: what rules and edits of scripts ask."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import NamedTuple

from worldsize.facts import table


class LibraryCall(NamedTuple):
    """A row of ``library_calls.csv``: a function by its full name, or ``*.save`` of any object."""

    call: str
    effect: str
    argument: int | None  # the position of the path that it writes to


@lru_cache(4096)  # names are those of users' scripts
def find_call(name: str, *effects: str) -> LibraryCall | None:
    """What a call of a full name does, if it has one of the effects; a row that names it wins over ``*``."""
    rows = _by_last_name().get(name.rpartition(".")[2], ())
    matching = [row for row in rows if row.effect in effects and fnmatchcase(name, row.call)]
    return min(matching, key=lambda row: "*" in row.call, default=None)


@cache
def list_last_names(*effects: str) -> frozenset[str]:
    """``save`` of ``torch.save``: for calls whose full names are not known."""
    return frozenset(row.call.rpartition(".")[2] for rows in _by_last_name().values() for row in rows
                     if row.effect in effects)  # fmt: skip


@cache
def list_variables(gives: str) -> frozenset[str]:
    """The environment variables that give something, such as ``local_rank``, whoever sets them."""
    return frozenset(row["variable"] for row in table.read_rows("launch_variables") if row["gives"] == gives)


@cache
def _by_last_name() -> dict[str, list[LibraryCall]]:
    by_name: dict[str, list[LibraryCall]] = {}
    for row in table.read_rows("library_calls"):
        argument = int(row["argument"]) if row["argument"] else None
        call = LibraryCall(row["call"], row["effect"], argument)
        by_name.setdefault(call.call.rpartition(".")[2], []).append(call)
    return by_name
