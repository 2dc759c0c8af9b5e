"""Putting files into a folder all at once: written beside it, then moved into its place.

Whatever goes wrong on the way (a full disk, a file that vanished), the folder that was there stays.
"""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from worldsize.diagnostics.problem import Problem
from worldsize.emit import plan_file
from worldsize.yaml.span import Span

_SHOWN = 3


def check_target(out: Path) -> Problem | None:
    """Why ``out`` must not be replaced, or None where it may be: only what we wrote is replaced."""
    span = Span(str(out), 1, 1, 1, 1)
    if out.exists() and not out.is_dir():
        help_ = "name a folder with `-o`"
        return Problem("output-not-ours", span, f"`{out}` is a file, not a folder", help_)
    try:
        there = _files_below(out)
    except OSError as error:
        return _not_written(out, error)
    if not there:
        return None
    document = plan_file.read(out)
    help_ = "name a new or empty folder with `-o`, or move these files away"
    if document is None:
        message = f"`{out}` is not empty and was not written by `worldsize compile`"
        return Problem("output-not-ours", span, message, help_)
    known = {plan_file.NAME, *document.get("files", [])}
    foreign = sorted(there - known)
    if foreign:
        shown = ", ".join(f"`{name}`" for name in foreign[:_SHOWN])
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        message = f"`{out}` holds {shown}{more}, which `worldsize compile` did not write"
        return Problem("output-not-ours", span, message[:200], help_)
    return None


def put(files: Mapping[str, Path | bytes], out: Path) -> Problem | None:
    """Write the files as the whole content of ``out``.

    Args:
        files: By path inside the folder, the bytes or the file to copy.
        out: The folder; :func:`check_target` must have agreed to it.

    Returns:
        None when everything is in place, else why it is not; ``out`` is then as it was.
    """
    target = out.resolve()
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        new = temporary / "new"
        new.mkdir(mode=0o755)
        for name, source in files.items():
            _write(new / name, source)
        _swap(new, target, temporary / "old")
    except OSError as error:
        return _not_written(out, error)
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return None


def _write(path: Path, source: Path | bytes) -> None:
    """One file, its mode reduced to whether it can be executed, so that it is the same everywhere."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    executable = False
    if isinstance(source, bytes):
        path.write_bytes(source)
    else:
        shutil.copyfile(source, path)
        executable = bool(source.stat().st_mode & stat.S_IXUSR)
    path.chmod(0o755 if executable else 0o644)


def _swap(new: Path, target: Path, old: Path) -> None:
    """Move ``new`` to ``target``; if that fails, what was there is moved back."""
    if not target.exists():
        new.rename(target)
        return
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise


def _files_below(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() and "__pycache__" not in path.parts
    }


def _not_written(out: Path, error: OSError) -> Problem:
    reason = (error.strerror or str(error)).lower()
    about = f" (`{Path(error.filename).name}`)" if isinstance(error.filename, str) else ""
    message = f"`{out}` could not be written: {reason}{about}"
    help_ = "what was there before is untouched; free space or check the rights, then compile again"
    return Problem("output-not-written", Span(str(out), 1, 1, 1, 1), message[:200], help_)
