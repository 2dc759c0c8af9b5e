"""Blobs: a file each, with a row for what a file does not know of itself.

A blob appears by the renaming of a complete file, so a killed server leaves none half written. The row bears
the ETag of the file that it describes; a file that another program has written since has properties of its
own. Jobs write files without rows. A list of blobs reads only the folders that its page needs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from stat import S_ISREG

import msgspec

from worldsize.serving.database import Database, contained, read_row
from worldsize.serving.home import Home
from worldsize.serving.storage.files import (
    UNWRITABLE,
    StorageError,
    blob_name,
    container_folder,
    is_inside,
    locate,
)
from worldsize.serving.workspace import Workspace

DEFAULT_TYPE = "application/octet-stream"


class BlobProperties(msgspec.Struct, frozen=True):
    """What a client has said of a blob."""

    content_type: str = DEFAULT_TYPE
    content_md5: str | None = None  # base64
    metadata: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}  # Content-Encoding, Cache-Control, …
    blocks: tuple[tuple[str, int], ...] = ()  # id and bytes of the committed blocks


@dataclass(frozen=True, slots=True)
class Blob:
    """One blob that exists."""

    container: str
    name: str
    file: Path
    size: int  # bytes
    modified_ns: int
    properties: BlobProperties

    @property
    def etag(self) -> str:
        """Changes with every write."""
        return f'"0x{self.modified_ns:X}-{self.size:X}"'

    @property
    def modified(self) -> datetime:
        """The time of the last write, in whole seconds as HTTP has it."""
        return datetime.fromtimestamp(self.modified_ns // 1_000_000_000, timezone.utc)


def read_blob(workspace: Workspace, container: str, path: str) -> Blob | None:
    """The blob of this name, or None.

    Raises:
        StorageError: 400, for a name that is not valid.
    """
    file = locate(workspace.home, container, path)
    stored = stat_blob(file, container, blob_name(path))
    return None if stored is None else describe_blobs(workspace.database, [stored])[0]


def stat_blob(file: Path, container: str, name: str) -> Blob | None:
    """A blob by its file alone; None where there is no regular file."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        return None
    if not S_ISREG(status.st_mode):
        return None
    return Blob(container, name, file, status.st_size, status.st_mtime_ns, BlobProperties())


def describe_blobs(database: Database, blobs: list[Blob]) -> list[Blob]:
    """The same blobs of one container, in the order of their names, with what their rows say."""
    if not blobs:
        return []
    rows = database.connection.execute(
        "SELECT * FROM blobs WHERE container = ? AND path BETWEEN ? AND ?",
        (blobs[0].container, blobs[0].name, blobs[-1].name),
    )
    by_path = {row["path"]: row for row in rows}
    described = []
    for blob in blobs:
        row = by_path.get(blob.name)
        properties = blob.properties
        if row is not None and row["etag"] == blob.etag:
            with contained("blob", blob.name):
                properties = read_row(BlobProperties, row)
        described.append(replace(blob, properties=properties))
    return described


def put_blob(
    workspace: Workspace, container: str, path: str, content: Path, properties: BlobProperties
) -> Blob:
    """Move a complete file of the home's file system to where it is the content of a blob.

    Raises:
        StorageError: 400 or 409, for a name that cannot be a file's beside the others.
    """
    file = locate(workspace.home, container, path)
    name = blob_name(path)
    if not name:
        raise StorageError(400, "InvalidUri", "The blob has no name.")
    moment = time.time_ns()  # finer than the file system's clock, so that every write has its own ETag
    os.utime(content, ns=(moment, moment))
    try:
        container_folder(workspace.home, container).mkdir(mode=0o700, exist_ok=True)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content.replace(file)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise StorageError(
            409,
            "PathConflict",
            f"`{name}` cannot be stored: another blob's name is a folder of it,"
            " or it is a folder of another's.",
        ) from None
    return describe(workspace, Blob(container, name, file, file.stat().st_size, moment, properties))


def describe(workspace: Workspace, blob: Blob) -> Blob:
    """Store what a client said of a blob."""
    place = {"container": blob.container, "path": blob.name}
    content = {"size": blob.size, "etag": blob.etag, "modified": blob.modified.isoformat()}
    with workspace.database.transaction() as connection:
        connection.execute("DELETE FROM blobs WHERE container = :container AND path = :path", place)
        workspace.database.insert("blobs", {**place, **content, **msgspec.structs.asdict(blob.properties)})
    return blob


def change_blob(workspace: Workspace, blob: Blob, properties: BlobProperties) -> Blob:
    """Replace what is said of a blob; its ETag and its time change as on Azure."""
    moment = time.time_ns()
    os.utime(blob.file, ns=(moment, moment))
    return describe(workspace, replace(blob, modified_ns=moment, properties=properties))


def delete_blob(workspace: Workspace, blob: Blob) -> None:
    """Delete a blob, and the folders that only it was in."""
    blob.file.unlink(missing_ok=True)
    workspace.database.connection.execute(
        "DELETE FROM blobs WHERE container = ? AND path = ?", (blob.container, blob.name)
    )
    top = container_folder(workspace.home, blob.container)
    with contextlib.suppress(OSError):  # it holds others, or is a link
        for folder in itertools.takewhile(lambda folder: folder != top, blob.file.parents):
            folder.rmdir()


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
    """The blobs of a container whose names begin with a prefix.

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


def list_pages(home: Home, container: str, *, prefix: str = "", delimiter: str = "") -> Iterator[Page]:
    """All pages of a listing."""
    page = list_blobs(home, container, prefix=prefix, delimiter=delimiter)
    yield page
    while page.after:
        page = list_blobs(home, container, prefix=prefix, delimiter=delimiter, after=page.after)
        yield page


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
            deep = replace(walk, after="", shallow=False)  # the same listing, of every blob
            if name > walk.after and any(_walk(deep, Path(entry.path), name, (*parents, real))):
                yield name
        else:
            yield from _walk(walk, Path(entry.path), name, (*parents, real))


def _entries(walk: _Walk, folder: Path, above: str) -> list[tuple[str, os.DirEntry[str]]]:
    """The files and folders of a folder that can have names to list, in the order of the names."""
    listed = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = above + entry.name + ("/" if entry.is_dir() else "")
                is_listed = _is_listed(walk, name)
                if is_listed and (not entry.is_symlink() or is_inside(walk.home, Path(entry.path))):
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
