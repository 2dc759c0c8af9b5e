"""Lists and reads the files that are copied: by compiling, by running, or into a zip.

Listing resolves every link first, checks whether its target may be copied, and stops after a number of
entries. Reading opens exactly the file that was listed: a file that was replaced by a link or a pipe since is
refused.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import IO, Literal, NamedTuple

from msgspec import Struct, field

from worldsize.base import limits, untrusted

MAX_ENTRIES = 100_000  # files and folders of one snapshot, links followed
MAX_DEPTH = 100  # folders in each other
MAX_LOOKED_AT = 2_000_000  # entries of all snapshots of one command
CHUNK = 1 << 20  # bytes that are copied at once
_OPENED = "/proc/self/fd"  # where Linux lists the files of open descriptors

Kind = Literal["file", "folder", "other"]


def allow_everything(_path: str | os.PathLike[str]) -> bool:
    """Allow reading or copying any file, for use without a project boundary."""
    return True


_DEEP = 50  # folders in each other; a path with more is resolved at once


class RealPaths(Struct, eq=False):
    """Resolves links as ``os.path.realpath`` does, which asks for every folder above a path again."""

    _known: dict[str, str] = field(default_factory=dict)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """The absolute path without links; of circular links, what ``os.path.realpath`` makes of them."""
        text = os.fspath(path)
        real = self._known.get(text)
        if real is None:
            real = self._known[text] = self._resolve(text)
        return real

    def _resolve(self, path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", ".", "..") or folder.count(os.sep) > _DEEP:
            return os.path.realpath(path)
        real = os.path.join(self.resolve(folder), name)  # noqa: PTH118 - paths are texts here
        return os.path.realpath(real) if os.path.islink(real) else real  # noqa: PTH114


class Entry(NamedTuple):
    """One name in a folder."""

    name: str
    kind: Kind  # what it is, links followed; `other` is neither a file nor a folder
    real: str  # its path, links resolved
    size: int = 0  # bytes of a file
    link: bool = False  # whether it is a symbolic link
    what: str = ""  # the kind of `other`, in words


class CopyAccess(Struct, eq=False):
    """Decides what one command may copy, by paths with links resolved; lists each folder once."""

    allowed: Callable[[str | os.PathLike[str]], bool] = field(default=allow_everything)
    # where links may lead without a word, if the end of the project is unknown
    presumed: Callable[[str | os.PathLike[str]], bool] = field(default=allow_everything)
    looked_at: int = 0
    real_paths: RealPaths = field(default_factory=RealPaths)
    _folders: dict[str, tuple[Entry, ...]] = field(default_factory=dict)

    def entries(self, real: str) -> tuple[Entry, ...]:
        """The entries of a folder, sorted by name, with links resolved; raises OSError if unreadable."""
        cached = self._folders.get(real)
        if cached is None:
            entries_found = []
            with os.scandir(real) as entries:
                for entry in entries:
                    entries_found.append(_entry(entry, real))
                    if len(entries_found) > MAX_ENTRIES:
                        break
            cached = self._folders[real] = tuple(sorted(entries_found))
        return cached


def _entry(entry: os.DirEntry[str], folder: str) -> Entry:
    path = os.path.join(folder, entry.name)  # noqa: PTH118 - thousands of them: paths are texts here
    try:
        link = entry.is_symlink()
        real = os.path.realpath(path) if link else path
        status = os.stat(real) if link else entry.stat(follow_symlinks=False)  # noqa: PTH116
    except OSError as error:
        what = "a link that leads back to itself" if error.errno == errno.ELOOP else "a broken link"
        return Entry(entry.name, "other", path, link=True, what=what)
    kind, what = _kind(status.st_mode)
    return Entry(entry.name, kind, real, status.st_size, link, what)


def _kind(mode: int) -> tuple[Kind, str]:
    if stat.S_ISREG(mode):
        return "file", ""
    if stat.S_ISDIR(mode):
        return "folder", ""
    if stat.S_ISFIFO(mode):
        return "other", "a pipe"
    return "other", "a socket" if stat.S_ISSOCK(mode) else "a device"


def open_listed(path: Path) -> BufferedReader:
    """Open a file to copy it; its links were resolved when it was listed.

    Raises:
        OSError: It cannot be read, or was replaced.
    """
    file = untrusted.open_file(path)
    if _is_still(path, file.fileno()):
        return file
    file.close()
    raise OSError(errno.ESTALE, "it was replaced after it was checked", str(path))


def _is_still(path: Path, number: int) -> bool:
    """Whether a descriptor is open on the file of that path, and no folder of the path became a link."""
    try:
        return os.readlink(f"{_OPENED}/{number}") == str(path)  # noqa: PTH115 - nothing is to be resolved
    except OSError:  # another system
        return os.path.realpath(path) == str(path) and os.path.samestat(os.stat(path), os.fstat(number))  # noqa: PTH116


def read_listed(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a file that was listed, or its first ``limit``; raises as :func:`open_listed` does.

    Without a limit, one of more than 16 MiB is an error, too.
    """
    with open_listed(path) as file:
        data = file.read(limits.SIZE + 1 if limit is None else limit)
    if limit is None and len(data) > limits.SIZE:
        raise OSError(errno.EFBIG, f"it has more than {limits.SIZE:,} bytes", str(path))
    return data


def hash_listed(path: Path) -> bytes:
    """SHA-256 of a file that was listed; raises as :func:`open_listed` does, or if it grows."""
    with open_listed(path) as file:
        return untrusted.hash_rest(file)


def are_equal(one: Path, other: Path) -> bool:
    """Whether two files that were listed have the same bytes; raises as :func:`open_listed` does."""
    with open_listed(one) as first, open_listed(other) as second:
        while (chunk := first.read(CHUNK)) == second.read(CHUNK):
            if not chunk:
                return True
    return False


def copy_listed(path: Path, target: Path) -> int:
    """Copy a file that was listed, and return its mode; raises OSError if either file fails."""
    with open_listed(path) as source, target.open("wb") as file:
        file.writelines(untrusted.read_chunks(source))
        return stat.S_IMODE(os.fstat(source.fileno()).st_mode)


_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold: the same bytes on any day


class Archive(Struct, frozen=True):
    """Files that are copied as one zip, sorted by their path in it. The zip is never whole in memory."""

    folder: str
    files: tuple[tuple[str, Path], ...]

    def copy_to(self, target: Path) -> None:
        """Write the zip.

        Raises:
            OSError: A file cannot be read, or was replaced since it was listed; or the target cannot
                be written.
        """
        with target.open("wb") as file:
            self.write(file)

    def content(self) -> bytes:
        """The bytes of the zip."""
        self.write(file := io.BytesIO())
        return file.getvalue()

    def write(self, file: IO[bytes]) -> None:
        """Write the zip into an open file, one piece of a file after the other."""
        import zipfile  # few components include a zipped folder

        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo(f"{self.folder}/", _TIME), b"")
            for name, path in self.files:
                with open_listed(path) as source:
                    entry = zipfile.ZipInfo(name, _TIME)
                    size = os.fstat(source.fileno()).st_size
                    entry.file_size = size  # decides whether its header needs eight bytes for it
                    try:
                        packed = archive.open(entry, "w")
                    except UnicodeEncodeError:
                        raise OSError(errno.EILSEQ, "its name is not text", str(path)) from None
                    with packed:
                        packed.writelines(untrusted.read_chunks(source))

    def identity(self) -> bytes:
        """A key that is equal for zips of the same files; reads no file."""
        parts = [self.folder, *(os.fspath(part) for entry in self.files for part in entry)]
        return b"\0".join(map(os.fsencode, parts))
