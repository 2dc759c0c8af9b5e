"""Files that are written completely or not at all, even with two writers, or if the writer is killed.

What only its user may read, such as a secret, is read back only if it is what was written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

SUFFIX = ".part"  # of a file that is being written
_OTHERS = 0o077
_LONGEST_PRIVATE = 1 << 16  # bytes


def write_whole(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    follow: bool = True,
    new: bool = False,
    flush: bool = True,
) -> None:
    """Write a file beside its place and rename it; if that fails, the file is as it was.

    Args:
        path: The file, in a folder that exists.
        data: Its content.
        mode: Its permissions, before the umask. By default a file keeps its own, and a new one gets 0666.
        follow: Whether a link is followed and stays a link, and a device or a pipe is written directly. Say
            False for a place that the user did not name: there a link is replaced, not what it leads to.
        new: Whether the file must not exist, not even as a link.
        flush: Whether to wait until the content is on the disk, which takes up to 25 ms. Without it a crash
            of the machine can leave a file without its content: only for what can be made again.

    Raises:
        OSError: It cannot be written, or it exists and is read-only.
    """
    target = Path(os.path.realpath(path)) if follow and not new else path
    try:
        present = None if new else target.lstat().st_mode
        if present is not None and follow and not stat.S_ISREG(present):
            target.write_bytes(data)
            return
        if present is not None and stat.S_ISREG(present) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileNotFoundError:
        present = None
    except OSError as error:
        raise _name(error, path) from None
    part = target.with_name(f".{os.getpid()}-{os.urandom(8).hex()}{SUFFIX}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        with os.fdopen(descriptor, "wb") as file:
            if mode is None and present is not None and stat.S_ISREG(present):
                os.fchmod(descriptor, stat.S_IMODE(present))
            file.write(data)
            if flush:
                file.flush()
                os.fsync(descriptor)
        if new:
            _name_new(part, target)
        else:
            part.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise _name(error, path) from None
        raise


def _name(error: OSError, path: Path) -> OSError:
    """The same error with the name of the file: a full disk has none, or that of a part."""
    return OSError(error.errno, error.strerror, str(path))


def _name_new(part: Path, target: Path) -> None:
    """Give a file its name, of two writers to the first one.

    Raises:
        FileExistsError: The name is taken.
    """
    try:
        os.link(part, target)
    except OSError:  # the name is taken, or the file system has no hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        part.replace(target)
    else:
        part.unlink()


def remove_parts(folder: Path) -> None:
    """Remove what killed writers have left in a folder that nobody writes to now."""
    for part in folder.glob(f".*{SUFFIX}"):
        with contextlib.suppress(OSError):
            part.unlink()


class NotAsWrittenError(Exception):
    """A private file is not what was written. The message is a sentence, and ``help`` says what to do."""

    help = "remove it: the next start makes a new one"


def read_private(path: Path, form: re.Pattern[bytes]) -> bytes | None:
    """The content of a file that only its user may read; None if there is none.

    Args:
        path: The file.
        form: What its whole content must match.

    Raises:
        NotAsWrittenError: It is empty, damaged, a link or no file at all, or others may read or replace it.
        OSError: It cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAsWrittenError(f"`{path}` is not a file but a link or a socket") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotAsWrittenError(f"`{path}` is not a file")
        if status.st_uid != os.geteuid():
            raise NotAsWrittenError(f"`{path}` belongs to another user")
        if status.st_mode & _OTHERS:
            mode = stat.S_IMODE(status.st_mode)
            raise NotAsWrittenError(f"other users may open `{path}`, whose mode is {mode:04o}")
        data = os.read(descriptor, _LONGEST_PRIVATE)
    finally:
        os.close(descriptor)
    if form.fullmatch(data) is None:
        why = "is damaged" if data else "is empty, as a full disk can leave it"
        raise NotAsWrittenError(f"`{path}` {why}")
    return data
