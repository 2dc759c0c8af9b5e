"""The files or the table of the input, split into mini-batches; each item is in exactly one."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .settings import DriverError, Settings

Key = dict[str, Any]
MAX_ENTRIES = 2_000_000  # circular links turn a few folders into millions of paths
_NAMED = re.compile(r"([^=]+)=(.*)")  # a folder `Store=1000`


@dataclass(frozen=True)
class Batch:
    """A mini-batch: the positions of its items, and their common key if there are partition keys."""

    index: int
    positions: tuple[int, ...]
    key: Key | None = None


def by_count(items: int, size: int) -> list[Batch]:
    """Split items into mini-batches of ``size``; the last one may be smaller."""
    starts = range(0, items, size)
    return [Batch(index, tuple(range(start, min(start + size, items)))) for index, start in enumerate(starts)]


def rows_of(size: int, rows: int, total: int) -> int:
    """The rows of a mini-batch of about ``size`` bytes, if ``rows`` of them have ``total`` bytes."""
    return max(1, size * rows // max(1, total))


def by_key(names: Sequence[str], keys: Iterable[Sequence[Hashable]]) -> list[Batch]:
    """One mini-batch for each distinct key, in the order in which they first appear."""
    groups: dict[tuple[Hashable, ...], list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(tuple(key), []).append(position)
    return [
        Batch(index, tuple(positions), dict(zip(names, key, strict=True)))
        for index, (key, positions) in enumerate(groups.items())
    ]


def folder_key(path: str, root: Path, names: Sequence[str]) -> tuple[str, ...]:
    """A file's key by its folders: ``Store=1000`` by name, else the first folders in order.

    Raises:
        DriverError: It has too few folders above it.
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


@dataclass(frozen=True)
class Work:
    """Mini-batches over the items of the input: files, or the rows of a table."""

    batches: tuple[Batch, ...]
    files: tuple[str, ...] = ()
    frame: Any = None  # a pandas DataFrame

    @property
    def noun(self) -> str:
        """The name of the items."""
        return "files" if self.frame is None else "rows"

    @property
    def items(self) -> int:
        """The number of items."""
        return sum(len(batch.positions) for batch in self.batches)

    def content(self, batch: Batch) -> Any:
        """The argument of ``run``: a list of paths, or a DataFrame with a new index."""
        if self.frame is None:
            return [self.files[position] for position in batch.positions]
        return self.frame.iloc[list(batch.positions)].reset_index(drop=True)


def files_below(path: Path) -> list[str]:
    """The files below a folder, sorted by their path, or a file itself.

    Links are followed, except into a folder that contains them; pipes and broken links are omitted.

    Raises:
        DriverError: There are too many.
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
        if looked_at > MAX_ENTRIES:
            count = f"more than {MAX_ENTRIES:,} files and folders"
            raise DriverError(f"`{path.name}` holds {count}, links followed")
        for entry in listed:
            if entry.is_file():
                paths.append(entry.path)
            elif entry.is_dir() and (real := os.path.realpath(entry.path)) not in above:
                waiting.append((entry.path, (*above, real)))
    return sorted(paths, key=lambda path: PurePosixPath(path).parts)


def load(settings: Settings) -> Work:
    """Find the input and split it.

    Raises:
        DriverError: It is empty, or cannot be read or split as requested.
    """
    path, keys = settings.input_data, settings.partition_keys
    if not path.exists():
        raise DriverError(f"`input_data` is `{path}`, which does not exist")
    if settings.input_type == "mltable":
        from . import mltable  # with packages that only a step which reads a table has

        table = mltable.read_table(path)
        files, root = mltable.list_files(table), table.folder
        if table.reader is not None:
            return _rows(settings, files, mltable.read_frame(table))
    else:
        files, root = files_below(path), path
    if not files:
        raise DriverError(f"there is nothing to do: `{path.name}` holds no file")
    if keys:
        parted = by_key(keys, (folder_key(file, root, keys) for file in files))
    else:
        parted = by_count(len(files), settings.file_count)
    return Work(tuple(parted), tuple(files))


def _rows(settings: Settings, files: list[str], frame: Any) -> Work:
    keys = settings.partition_keys
    if not len(frame):
        raise DriverError("there is nothing to do: the table has no row")
    missing = [key for key in keys if key not in frame.columns]
    if missing:
        names = ", ".join(f"`{name}`" for name in frame.columns)
        raise DriverError(f"`partition_keys` names `{missing[0]}`, but the columns are {names}")
    if keys:
        columns = [frame[key].tolist() for key in keys]
        parted = by_key(keys, zip(*columns, strict=True))
    else:
        total = sum(Path(file).stat().st_size for file in files)
        parted = by_count(len(frame), rows_of(settings.byte_count, len(frame), total))
    return Work(tuple(parted), frame=frame)
