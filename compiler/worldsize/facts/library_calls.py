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
    by_name = _by_last_name()
    rows = (*by_name.get(name.rpartition(".")[2], ()), *by_name["*"])
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


@lru_cache(4096)
def find_setter(variable: str) -> str:
    """Who sets an environment variable, such as ``pytorch`` or ``slurm``; empty if no launcher does."""
    rows = table.read_rows("launch_variables")
    return next((row["set_by"] for row in rows if fnmatchcase(variable, row["variable"])), "")


@cache
def _by_last_name() -> dict[str, list[LibraryCall]]:
    """The rows by the last part of the name; those with ``*`` in it together."""
    by_name: dict[str, list[LibraryCall]] = {}
    for row in table.read_rows("library_calls"):
        argument = int(row["argument"]) if row["argument"] else None
        call = LibraryCall(row["call"], row["effect"], argument)
        last = call.call.rpartition(".")[2]
        by_name.setdefault("*" if "*" in last else last, []).append(call)
    return by_name
