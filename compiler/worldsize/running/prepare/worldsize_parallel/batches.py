"""How items become mini-batches: every item in exactly one, whatever the sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .settings import DriverError

Key = dict[str, Any]
MOST_ENTRIES = 2_000_000  # links that lead to each other make millions of places of a few folders
_NAMED = re.compile(r"([^=]+)=(.*)")  # a folder `Store=1000`


@dataclass(frozen=True)
class Batch:
    """A mini-batch: the positions of its items, and what they have in common where keys part them."""

    index: int
    positions: tuple[int, ...]
    key: Key | None = None


def by_count(items: int, size: int) -> list[Batch]:
    """Runs of ``size`` items, the last one with what is left."""
    starts = range(0, items, size)
    return [Batch(index, tuple(range(start, min(start + size, items)))) for index, start in enumerate(starts)]


def rows_of(size: int, rows: int, total: int) -> int:
    """How many rows make a mini-batch of about ``size`` bytes, where ``rows`` of them have ``total``."""
    return max(1, size * rows // max(1, total))


def by_key(names: Sequence[str], keys: Iterable[Sequence[Hashable]]) -> list[Batch]:
    """One mini-batch for each distinct key, in the order in which they first appear."""
    groups: dict[tuple[Hashable, ...], list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(tuple(key), []).append(position)
    return [
        Batch(index, tuple(positions), {name: key[at] for at, name in enumerate(names)})
        for index, (key, positions) in enumerate(groups.items())
    ]


def files_below(path: Path) -> list[str]:
    """The files of a folder and its folders, sorted by their path; a file is its own only one.

    Links are followed, except into a folder that holds them; pipes and links to nothing are left out.

    Raises:
        DriverError: There are more than can be meant.
    """
    if path.is_file():
        return [str(path)]
    paths: list[str] = []
    waiting: list[tuple[str, tuple[str, ...]]] = [(str(path), (os.path.realpath(path),))]
    looked_at = 0
    while waiting:
        folder, above = waiting.pop()
        with os.scandir(folder) as entries:
            listed = list(entries)
        looked_at += len(listed)
        if looked_at > MOST_ENTRIES:
            raise DriverError(
                f"`{path.name}` holds more than {MOST_ENTRIES:,} files and folders, links followed"
            )
        for entry in listed:
            if entry.is_file():
                paths.append(entry.path)
            elif entry.is_dir() and (real := os.path.realpath(entry.path)) not in above:
                waiting.append((entry.path, (*above, real)))
    return sorted(paths, key=lambda each: PurePosixPath(each).parts)


def folder_key(path: str, root: Path, names: Sequence[str]) -> tuple[str, ...]:
    """A file's key from the folders it lies in: ``Store=1000`` by name, else the first folders in order.

    Raises:
        DriverError: It does not lie deep enough.
    """
    folders = PurePosixPath(os.path.relpath(path, root)).parts[:-1]
    named = {match[1]: match[2] for match in map(_NAMED.fullmatch, folders) if match}
    if all(name in named for name in names):
        return tuple(named[name] for name in names)
    if len(folders) < len(names):
        wanted = "/".join(f"{name}=…" for name in names)
        relative = PurePosixPath(os.path.relpath(path, root))
        raise DriverError(f"`{relative}` has no `partition_keys`: files must lie below `{wanted}/`")
    return tuple(folders[: len(names)])
