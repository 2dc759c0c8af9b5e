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
    """The facts about a built-in component; None for others.

    It has the name and at least the characteristic inputs. So a copy of its file is recognised wherever it
    lies, and a user's own `evaluate` is not taken for it.
    """
    name = component.name.value if component is not None and component.name is not None else None
    if component is None or not isinstance(name, str) or name not in table.index_rows("built_in_components"):
        return None
    facts = _read_facts(name)
    return facts if facts.known_by <= set(component.inputs) else None


@cache
def _read_facts(name: str) -> BuiltInComponent:
    from wsmetrics.names import METRICS  # few components are called like a built-in one

    row = table.index_rows("built_in_components")[name]
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
