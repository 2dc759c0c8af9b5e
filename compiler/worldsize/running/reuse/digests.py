"""Digests of files and folders, cached while the files are unchanged.

A cached digest is valid while the file's size, times and inode are unchanged. Two changes can be so close
together that the clock of the file system does not distinguish them (git calls such an index entry "racy"),
so the digest of a file younger than two seconds is not cached. After a crash of the machine a file may have
its size and times but not its content, so no digest outlives a boot.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Literal

import msgspec
from msgspec import Struct, field

from worldsize.azureml.copying import Archive
from worldsize.base import untrusted
from worldsize.running.record.json_files import boot_id, read_json, write_json

MAX_ENTRIES = 2_000_000  # of one tree; a larger one is not hashed, so its steps always run
CACHES = "__pycache__"  # Python writes it beside what it imports, such as a saved model: not content
MAX_REPEATED = 10_000  # entries that are listed again, because links lead to the same folder
Kind = Literal["file", "folder", "other", "missing"]
Stamp = tuple[int, int, int, int]  # size, time of change in ns, of the inode's in ns, inode


class Leaf(Struct, frozen=True, array_like=True):
    """A file's content. There is no stamp if the file was too young to recognise its next change."""

    sha256: str
    size: int
    stamp: Stamp | None = None


class Tree(Struct, frozen=True):
    """A file, a folder, or nothing. Places are relative paths with ``/``; a single file has the place ``""``.

    ``others`` are broken links, special files, folders that are listed at another place, and links that were
    not followed, with where they lead: only their names count.
    """

    kind: Kind
    files: Mapping[str, Leaf] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(leaf.size for leaf in self.files.values())

    @property
    def leads_out(self) -> bool:
        """Whether it has a link that was not followed: what that leads to can change without a trace."""
        return any(_LINK in place for place in self.others)

    def digest(self) -> str:
        """SHA-256 over kinds, names and contents: equal for equal trees, whatever their path and age."""
        total = hashlib.sha256(self.kind.encode())
        rows = [("d", place, "") for place in self.folders] + [("o", place, "") for place in self.others]
        rows += [("f", place, leaf.sha256) for place, leaf in self.files.items()]
        for mark, place, content in sorted(rows):
            total.update(b"\0".join((b"", mark.encode(), os.fsencode(place), content.encode())))
        return total.hexdigest()


def make_stamp(status: os.stat_result) -> Stamp:
    """A stamp that changes when a file is written, replaced, or gets an old time."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class TreeEntry(Struct, frozen=True):
    """One entry below a path. ``status`` is None for some that are neither file nor folder."""

    place: str
    kind: Kind
    status: os.stat_result | None = None


def walk_tree(path: Path, runs: Path | None = None) -> Iterator[TreeEntry]:
    """List everything at and below a path, except Python's caches.

    Links are followed, except into a folder that is being listed or that the path is in. For what a step has
    written, ``runs`` is the folder of the runs: links are followed into the folder of a run only.

    The path itself comes first, at the place ``""``. Circular links turn a few folders into millions of
    places: after :data:`MAX_REPEATED`, a folder that was listed before is an ``other`` with the name of its
    first place.

    Raises:
        OSError: A folder cannot be listed, or there are too many entries.
    """
    real = os.path.realpath(path)
    if runs is not None and path.is_symlink() and not _is_in_run(real, runs):
        yield TreeEntry("", "other")
        yield TreeEntry(f"{_LINK}{real}", "other")
        return
    try:
        status = path.stat()
    except FileNotFoundError:
        yield TreeEntry("", "other" if path.is_symlink() else "missing")
        return
    if S_ISDIR(status.st_mode):
        yield TreeEntry("", "folder", status)
        yield from _walk_folder(str(path), runs)
    elif S_ISREG(status.st_mode):
        yield TreeEntry("", "file", status)
    else:
        yield TreeEntry("", "other")


_LINK = "\0-> "  # behind the place of a link that is not followed


def _is_in_run(real: str, runs: Path) -> bool:
    top = f"{os.path.realpath(runs)}{os.sep}"
    return real.startswith(top) and os.sep in real[len(top) :]


def _walk_folder(root: str, runs: Path | None) -> Iterator[TreeEntry]:
    first: dict[tuple[int, int], str] = {}
    above_root = map(os.stat, Path(os.path.realpath(root)).parents)  # a link to one leads out
    waiting = [(root, "", frozenset((status.st_dev, status.st_ino) for status in above_root))]
    listed = repeated = 0
    while waiting:
        folder, prefix, above = waiting.pop()
        here = os.stat(folder)  # noqa: PTH116 - paths as text: thousands of them
        identity = here.st_dev, here.st_ino
        if identity in above:
            continue
        if identity in first and repeated >= MAX_REPEATED:
            yield TreeEntry(f"{prefix}\0{first[identity]}", "other")
            continue
        with os.scandir(folder) as scanned:
            kept = [entry for entry in scanned if entry.name != CACHES]
        entries = sorted(kept, key=lambda entry: entry.name)
        listed += len(entries)
        repeated += len(entries) if identity in first else 0
        first.setdefault(identity, prefix)
        if listed > MAX_ENTRIES:
            raise OSError(errno.E2BIG, f"more than {MAX_ENTRIES:,} files and folders", root)
        inner = []
        for entry in entries:
            place = prefix + entry.name
            if runs is not None and entry.is_symlink() and not _is_in_run(os.path.realpath(entry.path), runs):
                yield TreeEntry(f"{place}{_LINK}{os.path.realpath(entry.path)}", "other")
                continue
            try:
                status = entry.stat()
            except OSError:  # a broken or circular link
                yield TreeEntry(place, "other")
                continue
            if S_ISDIR(status.st_mode):
                yield TreeEntry(place, "folder", status)
                inner.append((entry.path, f"{place}/", above | {identity}))
            else:
                yield TreeEntry(place, "file" if S_ISREG(status.st_mode) else "other", status)
        waiting += reversed(inner)


SETTLED_NS = 2_000_000_000  # the coarsest clock of a common file system (FAT)


class Digests:
    """Hashes files, each once.

    Args:
        folder: Where digests are cached between runs; None to cache nothing.
        stop: Called between two chunks of a file; True ends the hashing with InterruptedError.
        clock: Nanoseconds since the epoch.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder = folder
        self._stop = stop
        self._clock = clock
        self._known: dict[str, tuple[Stamp, str]] = {}
        self._met: dict[str, tuple[Stamp, str]] = {}  # of the path that is being hashed
        self._kept: dict[Path, dict[str, tuple[Stamp, str]]] = {}  # of the paths that were hashed
        self.hashed = 0  # files that had to be read

    def tree(self, path: Path, *, runs: Path | None = None) -> Tree:
        """Describe what lies at a path, if anything, and keep the digests for later runs.

        Those of what a step has written are not kept: for these ``runs`` is as in :func:`walk_tree`.

        Raises:
            OSError: Something cannot be read.
            InterruptedError: ``stop`` returned True.
        """
        if runs is not None:
            return self._hash_tree(path, runs)
        return self._recall_tree(path, lambda: self._hash_tree(path, None))

    def files(self, sources: Mapping[str, Path | Archive], label: Path) -> Tree:
        """Files from several folders as one tree, whose digests are cached under the path ``label``.

        Raises:
            OSError: Something cannot be read.
            InterruptedError: ``stop`` returned True.
        """

        def collect() -> Tree:
            hashed = {
                place: self._hash_archive(source) if isinstance(source, Archive) else self.file(source)
                for place, source in sources.items()
            }
            return Tree("folder", hashed)

        return self._recall_tree(label, collect)

    def file(self, path: Path, status: os.stat_result | None = None) -> Leaf:
        """Hash one file.

        Raises:
            OSError: It cannot be read.
            InterruptedError: ``stop`` returned True.
        """
        marks = make_stamp(status or path.stat())
        digest = self._known.get(str(path))
        if digest is not None and digest[0] == marks:
            self._met[str(path)] = digest
            return Leaf(digest[1], marks[0], marks)
        return self._hash_file(path)

    def _hash_tree(self, path: Path, runs: Path | None) -> Tree:
        kind: Kind = "missing"
        files: dict[str, Leaf] = {}
        names: dict[Kind, list[str]] = {"folder": [], "other": []}
        for entry in walk_tree(path, runs):
            if not entry.place:
                kind = entry.kind
            elif entry.kind != "file":
                names[entry.kind].append(entry.place)
            if entry.kind == "file":
                files[entry.place] = self.file(path / entry.place if entry.place else path, entry.status)
        return Tree(kind, files, tuple(names["folder"]), tuple(names["other"]))

    def _hash_archive(self, archive: Archive) -> Leaf:
        """Hash a zip by its files, without writing it."""
        total, size = hashlib.sha256(os.fsencode(archive.folder)), 0
        for name, path in archive.files:
            leaf = self.file(path)
            total.update(b"\0".join((os.fsencode(name), leaf.sha256.encode(), b"")))
            size += leaf.size
        return Leaf(total.hexdigest(), size)

    def _hash_file(self, path: Path) -> Leaf:
        """Read a file; it has no stamp if it changed meanwhile, or may change without a new stamp."""
        self.hashed += 1
        now = self._clock()
        total, size = hashlib.sha256(), 0
        with untrusted.open_file(path) as file:
            before = make_stamp(os.fstat(file.fileno()))
            for chunk in untrusted.read_chunks(file):
                total.update(chunk)
                size += len(chunk)
                if self._stop():
                    raise InterruptedError
            after = make_stamp(os.fstat(file.fileno()))
        content = total.hexdigest()
        if before != after or now - max(after[1], after[2]) < SETTLED_NS:
            return Leaf(content, size)
        self._known[str(path)] = self._met[str(path)] = after, content
        return Leaf(content, size, after)

    def _recall_tree(self, label: Path, collect: Callable[[], Tree]) -> Tree:
        """Collect a tree with the cached digests of its path, and cache the new ones."""
        if self._folder is None:
            return collect()
        name = hashlib.sha256(os.fsencode(os.path.abspath(label))).hexdigest()[:32]  # noqa: PTH100 - as text
        file = self._folder / f"{name}.json"
        if file not in self._kept:
            self._kept[file] = self._load_digests(file)
            self._known.update(self._kept[file])
        self._met = {}
        tree = collect()
        if self._met != self._kept[file]:
            self._kept[file] = self._met
            with contextlib.suppress(OSError):  # without the cache the next run is slower
                # Of two concurrent runs the last one wins, which is harmless.
                write_json(file, {"boot": boot_id(), "files": self._met})
        return tree

    def _load_digests(self, file: Path) -> dict[str, tuple[Stamp, str]]:
        """Read the digests of an earlier run, unless the file is damaged or of an earlier boot."""
        document = read_json(file)
        if document is None or document.get("boot") != boot_id():
            return {}
        try:
            return msgspec.convert(document.get("files"), dict[str, tuple[Stamp, str]])
        except msgspec.ValidationError:
            return {}
