"""Files that are written completely or not at all, even with two writers, or if the writer is killed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

SUFFIX = ".part"  # of a file that is being written


def write_whole(path: Path, data: bytes, *, mode: int | None = None, flush: bool = False) -> None:
    """Write a file beside its place and rename it; if that fails, the file is as it was.

    A link is followed and stays a link. A device or a pipe is written directly.

    Args:
        path: The file, in a folder that exists.
        data: Its content.
        mode: Its permissions, before the umask. By default a file keeps its own, and a new one gets 0666.
        flush: Whether to wait until the content is on the disk, which takes up to 25 ms.

    Raises:
        OSError: It cannot be written, or it exists and is read-only.
    """
    target = Path(os.path.realpath(path))
    try:
        present = target.stat().st_mode
    except FileNotFoundError:
        present = None
    if present is not None and not stat.S_ISREG(present):
        target.write_bytes(data)
        return
    if present is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    part = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is None and present is not None:
                os.fchmod(descriptor, stat.S_IMODE(present))
            file.write(data)
            if flush:
                file.flush()
                os.fsync(descriptor)
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
