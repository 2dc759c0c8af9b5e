"""What DeepSpeed's configuration may hold, as read once from DeepSpeed itself into ``keys.json``.

A *closed* block is one of DeepSpeed's pydantic models: it refuses a key that it does not know. Of an open one
DeepSpeed looks up the keys it wants and never notices the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any, NamedTuple


class Key(NamedTuple):
    """One key of a block: the JSON types it takes, its choices and bounds, and what it was renamed to."""

    types: tuple[str, ...]
    choices: tuple[Any, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    instead: str | None = None  # deprecated in favour of this
    moved: bool = False  # DeepSpeed sets the new key from the old, and refuses both together


class Block(NamedTuple):
    """The keys of one block, by name."""

    closed: bool
    keys: Mapping[str, Key]


class Tables(NamedTuple):
    """All of it, and the version of DeepSpeed it was read from."""

    version: str
    blocks: Mapping[str, Block]  # by dotted path, "" for the whole
    removed: frozenset[str]  # top-level keys that this version refuses and older ones knew
    removed_zero: frozenset[str]  # the same, of zero_optimization
    optimizers: frozenset[str]  # DeepSpeed's own, in lower case
    torch_optimizers: frozenset[str]
    schedulers: Mapping[str, Mapping[str, bool]]  # DeepSpeed's own; their parameters, True where required
    torch_schedulers: frozenset[str]


@cache
def tables() -> Tables:
    """The tables, read when first asked for."""
    raw = json.loads(FilePath(__file__).with_name("keys.json").read_text(encoding="utf-8"))
    return Tables(
        version=raw["deepspeed"],
        blocks={name: _block(block) for name, block in raw["blocks"].items()},
        removed=frozenset(raw["removed"]),
        removed_zero=frozenset(raw["removed_zero"]),
        optimizers=frozenset(raw["optimizers"]),
        torch_optimizers=frozenset(raw["torch_optimizers"]),
        schedulers=raw["schedulers"],
        torch_schedulers=frozenset(raw["torch_schedulers"]),
    )


def _block(raw: Mapping[str, Any]) -> Block:
    return Block(raw["closed"], {name: _key(key) for name, key in raw["keys"].items()})


def _key(raw: Mapping[str, Any]) -> Key:
    return Key(
        tuple(raw["type"]),
        tuple(raw.get("of", ())),
        raw.get("min"),
        raw.get("above"),
        raw.get("max"),
        raw.get("instead"),
        raw.get("moved", False),
    )
