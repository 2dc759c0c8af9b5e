"""What lies below a path, as data: every file with its digest, and with the marks of a file left alone."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, Literal

MOST_ENTRIES = 2_000_000  # of one tree; what has more is not hashed, so its steps run every time
CACHES = "__pycache__"  # written by Python beside what it imports, from a saved model, too: not content
MOST_REPEATED = 10_000  # entries that are listed once more, where links lead to a folder again
Kind = Literal["file", "folder", "other", "missing"]
Stamp = tuple[int, int, int, int]  # size, time of change in ns, of the inode's in ns, inode


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file's content. Without a stamp the file was too young to be told from one that is edited next."""

    sha256: str
    size: int
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """A file, a folder, or nothing. Places are relative, with ``/``; a lone file is at the place ``""``.

    ``others`` are links to nothing, things that are neither file nor folder, and folders that stand at
    another place too: their names count.
    """

    kind: Kind
    files: Mapping[str, Leaf] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(leaf.size for leaf in self.files.values())

    def digest(self) -> str:
        """SHA-256 over kinds, names and contents: equal for equal trees, wherever they lie and how old."""
        total = hashlib.sha256(self.kind.encode())
        rows = [
            *(("d", place, "") for place in self.folders),
            *(("o", place, "") for place in self.others),
            *(("f", place, leaf.sha256) for place, leaf in self.files.items()),
        ]
        for mark, place, content in sorted(rows):
            total.update(b"\0".join((b"", mark.encode(), os.fsencode(place), content.encode())))
        return total.hexdigest()

    def document(self) -> dict[str, Any]:
        """As JSON."""
        files = {place: [leaf.sha256, leaf.size, leaf.stamp] for place, leaf in self.files.items()}
        return {"kind": self.kind, "files": files, "folders": self.folders, "others": self.others}


def parse_tree(document: Any) -> Tree:
    """A tree from JSON.

    Raises:
        ValueError, TypeError, KeyError: It is not what :meth:`Tree.document` gives.
    """
    files = {}
    for place, (sha256, size, marks) in document["files"].items():
        stamp = None if marks is None else _stamp(*marks)
        files[str(place)] = Leaf(str(sha256), int(size), stamp)
    kind = document["kind"]
    if kind not in ("file", "folder", "other", "missing"):
        raise ValueError(f"there is no kind `{kind}`")
    return Tree(kind, files, tuple(map(str, document["folders"])), tuple(map(str, document["others"])))


def _stamp(size: int, changed: int, inode_changed: int, inode: int) -> Stamp:
    return int(size), int(changed), int(inode_changed), int(inode)


def make_stamp(status: os.stat_result) -> Stamp:
    """What changes when a file is written, replaced, or given back an old time."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One thing below a path. ``status`` is None for what is neither file nor folder."""

    place: str
    kind: Kind
    status: os.stat_result | None = None


def walk_tree(path: Path) -> Iterator[TreeEntry]:
    """Everything at and below a path but Python's caches, links followed, except into a folder being listed.

    The path itself comes first, at the place ``""``. Links that lead to each other make millions of places
    of a few folders: after :data:`MOST_REPEATED`, a folder that was listed before is an ``other`` that
    names its first place.

    Raises:
        OSError: A folder cannot be listed, or there is more than is ever hashed.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        yield TreeEntry("", "other" if path.is_symlink() else "missing")
        return
    if S_ISDIR(status.st_mode):
        yield TreeEntry("", "folder", status)
        yield from _below(str(path))
    elif S_ISREG(status.st_mode):
        yield TreeEntry("", "file", status)
    else:
        yield TreeEntry("", "other")


def _below(root: str) -> Iterator[TreeEntry]:
    first: dict[tuple[int, int], str] = {}
    waiting: list[tuple[str, str, frozenset[tuple[int, int]]]] = [(root, "", frozenset())]
    listed = repeated = 0
    while waiting:
        folder, prefix, above = waiting.pop()
        here = os.stat(folder)  # noqa: PTH116 - paths as text: thousands of them
        identity = here.st_dev, here.st_ino
        if identity in above:
            continue
        if identity in first and repeated >= MOST_REPEATED:
            yield TreeEntry(f"{prefix}\0{first[identity]}", "other")
            continue
        entries = _sorted_entries(folder)
        listed += len(entries)
        repeated += len(entries) if identity in first else 0
        first.setdefault(identity, prefix)
        if listed > MOST_ENTRIES:
            raise OSError(errno.E2BIG, f"more than {MOST_ENTRIES:,} files and folders", root)
        inner = []
        for entry in entries:
            place = prefix + entry.name
            try:
                status = entry.stat()
            except OSError:  # a link to nothing, or round in a circle
                yield TreeEntry(place, "other")
                continue
            if S_ISDIR(status.st_mode):
                yield TreeEntry(place, "folder", status)
                inner.append((entry.path, f"{place}/", above | {identity}))
            else:
                yield TreeEntry(place, "file" if S_ISREG(status.st_mode) else "other", status)
        waiting += reversed(inner)


def _sorted_entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if entry.name != CACHES), key=lambda entry: entry.name)
