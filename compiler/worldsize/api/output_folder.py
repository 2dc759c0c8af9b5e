"""Replaces the content of a folder at once: the files are written beside it and then moved to its place.

Whatever goes wrong on the way (a full disk, a file that vanished), the folder that was there stays.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO

from worldsize.azureml.copying import Archive, copy_listed
from worldsize.base.wording import describe_os_error
from worldsize.documents.errors import OutputError
from worldsize.planning import plan_file

_SHOWN = 3
_TRIES = 100  # of a swap that others are in the middle of
_SUFFIX, _LOCK = ".part", "lock"  # of the folder beside the output, and the file in it that its maker holds


def check_target(out: Path) -> None:
    """Make sure that ``out`` may be replaced: it is new, empty, or contains only files that we wrote.

    Raises:
        OutputError: It may not.
    """
    help_ = "name a new or empty folder, or move its content away"
    if not out.exists():
        return
    if not out.is_dir():
        raise OutputError(f"`{out}` is a file, not a folder", help_)
    document = plan_file.read(out)
    try:
        # A folder that is not ours may hold a whole disk: one file in it is enough to know.
        there = set(_files_below(out) if document is not None else itertools.islice(_files_below(out), 1))
    except OSError as error:
        raise _make_output_error(out, error) from None
    if not there:
        return
    if document is None:
        raise OutputError(f"`{out}` is not empty and was not written by `worldsize compile`", help_)
    foreign = sorted(there - {plan_file.NAME, *document.get("files", [])})
    if foreign:
        shown = ", ".join(f"`{name}`" for name in foreign[:_SHOWN])
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        raise OutputError(f"`{out}` holds {shown}{more}, which `worldsize compile` did not write", help_)


def write_folder(files: Mapping[str, Path | bytes | Archive], out: Path) -> None:
    """Write the files as the whole content of ``out``, which :func:`check_target` has checked.

    Raises:
        OutputError: A file could not be read or written. ``out`` is as it was.
    """
    target = out.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        with _work_beside(target) as temporary:
            new = temporary / "new"
            new.mkdir(mode=0o755)
            for folder in sorted({path.parent for path in map(PurePosixPath, files)}):
                (new / folder).mkdir(mode=0o755, parents=True, exist_ok=True)
            for name, source in files.items():
                _write(new / name, source)
            _swap(new, target, temporary / "old")
    except OSError as error:
        raise _make_output_error(out, error) from None


@contextlib.contextmanager
def _work_beside(target: Path) -> Iterator[Path]:
    """A folder beside ``target`` with a lock, which the system releases however this process ends."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_SUFFIX, dir=target.parent))
        try:
            with (folder / _LOCK).open("w") as file:
                _lock(file, wait=True)
                if not (folder / _LOCK).exists():
                    continue  # another compile swept it up before it was held
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _lock(file: IO[str], *, wait: bool) -> bool:
    """Take a lock; False if another process has it, or the system has no such locks."""
    try:
        import fcntl  # POSIX only

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except (ImportError, OSError):
        return False
    return True


def _sweep(target: Path) -> None:
    """Remove the folders of killed compiles beside ``target``; no process holds their locks any more."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*{_SUFFIX}"):
        with contextlib.suppress(OSError), (left / _LOCK).open("r+") as file:
            if _lock(file, wait=False):
                shutil.rmtree(left, ignore_errors=True)


def _write(path: Path, source: Path | bytes | Archive) -> None:
    """Write one file. Of its mode only the executable bit is kept, so that it is the same everywhere."""
    executable = False
    if isinstance(source, bytes):
        path.write_bytes(source)
    elif isinstance(source, Archive):
        source.copy_to(path)
    else:
        executable = bool(copy_listed(source, path) & stat.S_IXUSR)
    path.chmod(0o755 if executable else 0o644)


def _swap(new: Path, target: Path, spare: Path) -> None:
    """Move ``new`` to ``target``; if that fails, what was there is moved back.

    Another compile may do the same at this moment: then the later one wins, and both outputs were whole.
    """
    for number in range(_TRIES):
        old = spare.with_name(f"{spare.name}-{number}")
        with contextlib.suppress(FileNotFoundError):
            target.rename(old)
        try:
            new.rename(target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and number + 1 < _TRIES:
                continue
            if old.exists():
                old.rename(target)
            raise
        return


def _files_below(folder: Path, prefix: str = "") -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == "__pycache__":
                continue
            if not entry.is_dir():
                yield prefix + entry.name
            elif not entry.is_symlink():
                yield from _files_below(folder / entry.name, f"{prefix}{entry.name}/")


def _make_output_error(out: Path, error: OSError) -> OutputError:
    help_ = "its previous content is unchanged; free space or check the permissions, then compile again"
    return OutputError(f"`{out}` could not be written: {describe_os_error(error, file=True)}", help_)
