"""What the checker knows of built-in components beyond what their files declare."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, Protocol

from msgspec import Struct

from worldsize.facts import table


class BuiltInComponent(Struct, frozen=True):
    """The facts about one component. ``metrics`` are empty where it logs none."""

    name: str
    known_by: frozenset[str]  # inputs that together no other component of this name has
    code_input: str | None  # the input for `path/to/file.py:function`
    built_in_models: tuple[str, ...]  # what else that input takes
    metrics: tuple[str, ...]


class Declared(Protocol):
    """A component as far as it says which one it is: a name, whose value may be anything, and inputs."""

    @property
    def name(self) -> Any:
        """None, or a field with the name."""

    @property
    def inputs(self) -> Collection[str]:
        """Its inputs, by their names."""


def find_facts(component: Declared | None) -> BuiltInComponent | None:
    """The facts about a built-in component, or a copy of one; None for others."""
    if component is None or component.name is None:
        return None
    return lookup(component.name.value, component.inputs)


def lookup(name: object, inputs: Collection[str]) -> BuiltInComponent | None:
    """The built-in component with a name and at least its characteristic inputs, or None.

    So a copy of its file is recognised wherever it lies, and a user's own `evaluate` is not taken for it.
    """
    row = _rows().get(name) if isinstance(name, str) else None
    return _read_row(row["name"]) if row is not None and set(row["known_by"].split()) <= set(inputs) else None


@cache
def _rows() -> dict[str, dict[str, str]]:
    return {row["name"]: row for row in table.read_rows("built_in_components")}


@cache
def _read_row(name: str) -> BuiltInComponent:
    from wsmetrics.names import METRICS  # few components are called like a built-in one

    row = _rows()[name]
    metrics = row["logs"].split()
    for pattern in row["task_metrics"].split():
        of_tasks = dict.fromkeys(name for names in METRICS.values() for name in names)
        metrics += [pattern.replace("*", name) for name in of_tasks if pattern == "*" or name != "rows"]
    return BuiltInComponent(
        row["name"],
        frozenset(row["known_by"].split()),
        row["code_input"] or None,
        tuple(row["built_in_models"].split()),
        tuple(metrics),
    )
