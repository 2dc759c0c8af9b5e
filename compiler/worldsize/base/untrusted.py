"""Opens files that others may have made: those of the user's tree, of a run's folder, of a workspace's home.

Everything that the package reads and did not ship or write itself passes through here. A named pipe would
block for ever, a device or a growing file would never end, and a size that is read first may be wrong.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import warnings
from collections.abc import Iterator
from io import BufferedReader

from worldsize.base import limits
from wsshards.regular_files import check_regular, open_regular, read_regular

CHUNK = 1 << 20  # bytes that are read at once
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)  # nothing is there, or can be
_REASONS = {errno.ELOOP: "it is a link that leads back to itself"}


class UnreadableError(OSError):
    """A file that exists but is not read; ``strerror`` says why, as in ``it is a device, not a file``."""

    @property
    def too_large(self) -> bool:
        """Whether its size is the reason."""
        return self.errno == errno.EFBIG

    def __str__(self) -> str:
        return f"`{self.filename}` cannot be read: {self.strerror}"

    def warn(self) -> None:
        """Warn of a file that is passed over: what reads it can do without."""
        warnings.warn(UnreadWarning(str(self)), stacklevel=1)  # of equal ones, one is shown


class UnreadWarning(UserWarning):
    """A file that was passed over; the command line shows its sentence alone."""


@contextlib.contextmanager
def passed_over() -> Iterator[None]:
    """Do without a file: end the block if it is missing, and warn if it cannot be read."""
    try:
        yield
    except FileNotFoundError:
        pass
    except UnreadableError as error:
        error.warn()


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file, or the one that a link leads to, whose reader bounds what it reads.

    Raises:
        FileNotFoundError: There is nothing, or a link that leads to nothing.
        UnreadableError: It is a pipe, a device, a socket or a folder, or there is no permission.
    """
    with _explain(path):
        check_regular(os.fspath(path))  # nothing else is opened, unless it replaces the file just now
        return open_regular(os.fspath(path))


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise :class:`UnreadableError` if something other than a file is where one is to be written."""
    with contextlib.suppress(FileNotFoundError), _explain(path):
        check_regular(os.fspath(path))


def find_fault(path: str | os.PathLike[str], *, folder: bool = False) -> str | None:
    """What is at a path in place of a file, or of a ``folder``; None if it is one, or if nothing is there."""
    if folder and os.path.isdir(path):  # noqa: PTH112 - a text
        return None
    try:
        check_file(path)
    except UnreadableError as error:
        return error.strerror
    return None


def read_bytes(path: str | os.PathLike[str], limit: int | None = None) -> bytes:
    """The content of a file of at most ``limit`` bytes, by default 16 MiB: reading shows if it has more.

    Raises:
        FileNotFoundError: As in :func:`open_file`.
        UnreadableError: As there, or the file is larger.
        OverBudgetError: The file that is being checked has used up its time.
    """
    limits.check_time()
    with _explain(path):
        check_regular(os.fspath(path))
        return read_regular(os.fspath(path), limits.SIZE if limit is None else limit)


def read_text(
    path: str | os.PathLike[str], limit: int | None = None, *, encoding: str = "utf-8", errors: str = "strict"
) -> str:
    r"""The text of a file, with ``\n`` at the end of each line.

    Raises:
        FileNotFoundError: As in :func:`open_file`.
        UnreadableError: As in :func:`read_bytes`, or it is not text of the encoding.
        OverBudgetError: As there.
    """
    data = read_bytes(path, limit)
    try:
        text = data.decode(encoding, errors)
    except UnicodeDecodeError as error:
        reason = f"it is not {error.encoding} text: byte 0x{data[error.start]:02x} at {error.start:,}"
        raise UnreadableError(errno.EILSEQ, reason, os.fspath(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def read_chunks(file: BufferedReader) -> Iterator[bytes]:
    """What an open file held when it was opened, piece by piece; of one without a size at most 16 MiB.

    Raises:
        UnreadableError: It has grown since.
        OverBudgetError: As in :func:`read_bytes`.
    """
    left = os.fstat(file.fileno()).st_size or limits.SIZE
    while chunk := file.read(CHUNK):
        limits.check_time()
        left -= len(chunk)
        if left < 0:
            raise UnreadableError(errno.EFBIG, "it grew while it was read", str(file.name))
        yield chunk


def hash_rest(file: BufferedReader) -> bytes:
    """SHA-256 of what is left of an open file; raises as :func:`read_chunks` does."""
    total = hashlib.sha256()
    for chunk in read_chunks(file):
        total.update(chunk)
    return total.digest()


def read_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    r"""The lines of a record that grows, with their ``\n``, one in memory at a time.

    Raises:
        FileNotFoundError: As in :func:`open_file`.
        UnreadableError: As there, or it has more than :data:`limits.RECORD` bytes.
        OverBudgetError: As in :func:`read_bytes`.
    """
    left = limits.RECORD
    with open_file(path) as file:
        while line := file.readline(limits.SIZE):
            limits.check_time()
            left -= len(line)
            if left < 0:
                reason = f"it has more than the {limits.RECORD:,} bytes it may have"
                raise UnreadableError(errno.EFBIG, reason, os.fspath(path))
            yield line.decode("utf-8", "replace")


@contextlib.contextmanager
def _explain(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn the errors of the operating system into the one that readers know."""
    try:
        yield
    except ValueError:  # a NUL character in its name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path)) from None
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFoundError(error.errno, os.strerror(error.errno), os.fspath(path)) from None
        reason = _REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
        raise UnreadableError(error.errno, reason, os.fspath(path)) from None
