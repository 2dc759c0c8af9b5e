"""Distribution types: how many processes Azure ML starts per instance."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from worldsize.facts import table


class Framework(Struct, frozen=True):
    """One value of ``distribution.type``."""

    name: str
    process_per_gpu: bool  # False: one process an instance drives all its GPUs
    source: str


def lookup(name: str) -> Framework | None:
    """The framework of a ``distribution.type``, or None."""
    return _all().get(name)


@cache
def _all() -> dict[str, Framework]:
    return {
        row["name"]: Framework(row["name"], row["starts"] == "process-per-gpu", row["source"])
        for row in table.read_rows("frameworks")
    }
