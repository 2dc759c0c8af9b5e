"""Lists blobs in the order of their names, a page at a time; reads only the folders that a page needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worldsize.serving.home import Home
from worldsize.serving.storage.blobs import Blob, stat_blob
from worldsize.serving.storage.files import UNWRITABLE, container_folder, is_inside, locate

MAX_RESULTS = 5000  # of one page


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, in the order of the names."""

    blobs: list[Blob]
    prefixes: list[str]  # names up to the delimiter that several blobs share
    after: str  # where the next page begins; empty at the end


@dataclass(frozen=True, slots=True)
class _Walk:
    """What a listing asks for."""

    home: Home
    prefix: str
    after: str
    shallow: bool  # whether what lies deeper than the prefix is named by its folder


def list_blobs(
    home: Home,
    container: str,
    *,
    prefix: str = "",
    delimiter: str = "",
    after: str = "",
    limit: int = MAX_RESULTS,
) -> Page:
    """The blobs whose names begin with a prefix.

    Args:
        home: The home.
        container: The container, which exists.
        prefix: What the names begin with.
        delimiter: Text after which names beyond the prefix are joined into one; empty for every blob.
        after: The last name or joined name of the page before.
        limit: The most names of the page.

    Raises:
        StorageError: 400, for a container that leads outside the home.
    """
    folder = locate(home, container, "")
    walk = _Walk(home, prefix, after, delimiter == "/")
    blobs: list[Blob] = []
    prefixes: list[str] = []
    last = ""
    for name in _joined(_walk(walk, folder, "", ()), prefix, delimiter, after):
        if len(blobs) + len(prefixes) == limit:
            return Page(blobs, prefixes, last)
        if delimiter and delimiter in name[len(prefix) :]:
            prefixes.append(name)
        elif (blob := stat_blob(container_folder(home, container) / name, container, name)) is not None:
            blobs.append(blob)
        last = name
    return Page(blobs, prefixes, "")


def _joined(names: Iterator[str], prefix: str, delimiter: str, after: str) -> Iterator[str]:
    """The names, or once what they share up to the delimiter."""
    last = after
    for name in names:
        head, separator, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        shown = prefix + head + separator if separator else name
        if shown != last:
            yield shown
        last = shown


def _walk(walk: _Walk, folder: Path, above: str, parents: tuple[str, ...]) -> Iterator[str]:
    """The names below a folder in their order; a folder that is shown as one has a slash at its end."""
    real = os.path.realpath(folder)
    if real in parents:  # a link to a folder that it is in
        return
    for name, entry in _entries(walk, folder, above):
        if not name.endswith("/"):
            yield name
        elif walk.shallow and len(name) > len(walk.prefix):
            if name > walk.after and any(
                True for _ in _walk(_deep(walk), Path(entry.path), name, (*parents, real))
            ):
                yield name
        else:
            yield from _walk(walk, Path(entry.path), name, (*parents, real))


def _deep(walk: _Walk) -> _Walk:
    """The same listing, of every blob."""
    return _Walk(walk.home, walk.prefix, "", shallow=False)


def _entries(walk: _Walk, folder: Path, above: str) -> list[tuple[str, os.DirEntry[str]]]:
    """The files and folders of a folder that can have names to list, in the order of the names."""
    listed = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = above + entry.name + ("/" if entry.is_dir() else "")
                if _is_listed(walk, name) and _is_reachable(walk.home, entry):
                    listed.append((name, entry))
    except OSError:  # it has gone, or is not readable
        return []
    return sorted(listed, key=lambda entry: entry[0])


def _is_listed(walk: _Walk, name: str) -> bool:
    """Whether a blob's name, or one below a folder's, has the prefix and comes after the page before."""
    if name.endswith("/"):
        near = name.startswith(walk.prefix) or walk.prefix.startswith(name)
        return near and (name > walk.after or walk.after.startswith(name))
    return name.startswith(walk.prefix) and name > walk.after and UNWRITABLE.search(name) is None


def _is_reachable(home: Home, entry: os.DirEntry[str]) -> bool:
    return not entry.is_symlink() or is_inside(home, Path(entry.path))
