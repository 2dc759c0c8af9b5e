"""What calls of libraries do, and which variables a launcher sets: what rules about scripts ask."""

from __future__ import annotations

from functools import cache

from worldsize.facts import table


@cache
def list_calls(effect: str) -> frozenset[str]:
    """The functions with an effect, by their full names."""
    return frozenset(row["call"] for row in table.read_rows("library_calls") if row["effect"] == effect)


@cache
def list_variables(gives: str) -> frozenset[str]:
    """The environment variables that give something, such as ``local_rank``, whoever sets them."""
    return frozenset(row["variable"] for row in table.read_rows("launch_variables") if row["gives"] == gives)
