"""Values of several jobs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")


def by_row(values: Iterable[tuple[str, str, Mapping[str, Value]]]) -> dict[str, dict[str, Value]]:
    """Values by their names, with the step before the name, and by the titles of the jobs.

    A pipeline says ``train.epochs`` for what its step ``train`` calls ``epochs``: it is one row, and what the
    step says counts.
    """
    rows: dict[str, dict[str, Value]] = {}
    for title, prefix, named in values:
        for name, value in named.items():
            rows.setdefault(prefix + name, {})[title] = value
    return rows


def differing(rows: Mapping[str, Mapping[str, Value]], titles: Sequence[str]) -> list[str]:
    """The rows that do not have one value in all jobs that have any."""
    filled = [title for title in titles if any(title in values for values in rows.values())]
    return sorted(name for name, values in rows.items() if len({values.get(title) for title in filled}) > 1)
