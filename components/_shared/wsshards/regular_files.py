"""Opens files of unknown origin: regular ones only, of bounded size and number.

A named pipe blocks forever, a device never ends, and a folder may hold millions of files or circular links.
The type is read from the open file, so it cannot change after the check.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_FILES = 2_000_000  # in a folder of data: their names take about 300 MB
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str | Path) -> io.BufferedReader:
    """Open a regular file for reading, or the one that a link leads to.

    Raises:
        OSError: the path names nothing that can be read, or something that is not a regular file.
    """
    try:
        number = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise _not_regular(path, Path(path).stat().st_mode) from None
        raise
    try:
        mode = os.fstat(number).st_mode
        if not stat.S_ISREG(mode):
            raise _not_regular(path, mode)  # noqa: TRY301 - the number is to be closed
        return open(number, "rb")  # noqa: PTH123 - a number, not a path
    except BaseException:
        os.close(number)
        raise


@contextmanager
def path_of_open(path: str | Path) -> Iterator[str]:
    """Yield a path under which a library opens the regular file that was checked, even if it is replaced.

    Raises:
        OSError: as in :func:`open_regular`.
    """
    with open_regular(path) as file:
        name = f"/proc/self/fd/{file.fileno()}"
        yield name if os.path.exists(name) else os.fspath(path)  # noqa: PTH110 - a text for a library


def read_regular(path: str | Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes.

    Raises:
        OSError: as in :func:`open_regular`, or the file is larger.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > limit else file.read(size + 1)
        if len(data) > size:  # it grows, or does not know its size
            data += file.read(limit + 1 - len(data))
    if max(size, len(data)) > limit:
        raise OSError(
            errno.EFBIG,
            f"it has {max(size, len(data)):,} bytes, more than the {limit:,} it may have",
            str(path),
        )
    return data


def check_regular(path: str | Path) -> int:
    """Return the size of a regular file, without opening it.

    Raises:
        OSError: the path names nothing, or something that is not a regular file.
    """
    status = os.stat(path)  # noqa: PTH116 - a check of a big tree asks this thousands of times
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path, status.st_mode)
    return status.st_size


def list_files(root: str | Path, limit: int = MAX_FILES, *, hidden: bool = False) -> Iterator[str]:
    """Yield the paths below a folder of everything that is not a folder, with `/` between their parts.

    Links are followed, and no folder is listed twice.

    Args:
        root: The folder.
        limit: How many there may be.
        hidden: Also what begins with `.` or `_`, as markers such as `_SUCCESS` do.

    Raises:
        OSError: a folder cannot be listed, is listed already under another name, or there are more files.
    """
    seen: dict[tuple[int, int], str] = {}
    waiting, count = [""], 0
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(root, below)) as entries:  # noqa: PTH118 - there may be millions
            status = os.stat(os.path.join(root, below))  # noqa: PTH116, PTH118
            first = seen.setdefault((status.st_dev, status.st_ino), below)
            if first != below:
                raise OSError(errno.ELOOP, f"it is the same folder as `{first or '.'}`", below)
            for entry in entries:
                if not hidden and entry.name[0] in "._":
                    continue
                path = f"{below}/{entry.name}" if below else entry.name
                if _is_folder(entry):
                    waiting.append(path)
                    continue
                count += 1
                if count > limit:
                    raise OSError(errno.EFBIG, f"it holds more than {limit:,} files", str(root))
                yield path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself; opening it raises an error
        return False


def _not_regular(path: str | Path, mode: int) -> OSError:
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    return OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
