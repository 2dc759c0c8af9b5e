"""Checks once, before training, that all processes have the same code, data and plan.

Ranks that differ do not fail: they hang in collectives that do not match, or average gradients of different
models. Imports the standard library only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wsshards.manifest import MANIFEST_NAME as MANIFEST

Fingerprint = dict[str, dict[str, str]]
_SHORT = 16  # hex digits of a SHA-256: enough against accidents
_SUBJECTS = {"code": "runs other code than", "data": "reads other shards than"}


def fingerprint(code: Path, shards: Path, plan: Mapping[str, Any]) -> Fingerprint:
    """Return what must be the same in every process, small enough to exchange.

    Args:
        code: the folder of the code snapshot; its Python files count.
        shards: the shards folder, whose manifest has the SHA-256 of every shard.
        plan: inputs of the component by name, without paths.
    """
    return {
        "code": {path.relative_to(code).as_posix(): _digest(path) for path in sorted(_sources(code))},
        "data": {MANIFEST: _digest(shards / MANIFEST)},
        "plan": {name: str(value) for name, value in sorted(plan.items())},
    }


def describe_difference(values: Sequence[Fingerprint], names: Sequence[str] | None = None) -> str | None:
    """Return a sentence about the first process that differs from process 0, or None.

    Args:
        values: fingerprints by rank.
        names: of the processes, by default ``rank 0`` and so on.
    """
    called = names or [f"rank {rank}" for rank in range(len(values))]
    for name, value in zip(called[1:], values[1:], strict=True):
        for part, first in values[0].items():
            other = value.get(part, {})
            for key in sorted(first.keys() | other.keys()):
                if first.get(key) != other.get(key):
                    return _sentence(part, key, (called[0], first.get(key)), (name, other.get(key)))
    return None


def _sentence(part: str, key: str, first: tuple[str, str | None], other: tuple[str, str | None]) -> str:
    if part == "plan":
        return f"{other[0]} was started with `{key}` {other[1]}, but {first[0]} with {first[1]}"
    lacking = next((name for name, value in (first, other) if value is None), None)
    reason = f"`{key}` differs" if lacking is None else f"{lacking} has no `{key}`"
    return f"{other[0]} {_SUBJECTS[part]} {first[0]}: {reason}"


def _sources(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (Path(here, name) for name in files if name.endswith(".py"))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:_SHORT]
    except OSError:
        return "unreadable"
