"""JSON files that exist completely or not at all, even with two writers, or if the writer is killed.

Writes are not flushed to the disk, which would take up to 25 ms per file. Only a crash of the machine can
leave a file without its content; such a file is not JSON and counts as absent. What a file says about other
files is trusted without reading them only until the next boot (:func:`boot_id`).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

SUFFIX = ".part"  # of a file that is being written


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file beside its place, then rename it; if that fails, nothing of it is left."""
    data = json.dumps(document, separators=(",", ":")).encode()
    part = _name_part(path)
    try:
        descriptor = _open_part(part, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_part(part, 0o666)
    _fill_part(descriptor, part, path, data)


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write any file in the same way, with the permissions ``mode``, into a folder that exists.

    Raises:
        OSError: It cannot be written.
    """
    part = _name_part(path)
    _fill_part(_open_part(part, mode), part, path, data)


def _name_part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")


def _open_part(part: Path, mode: int) -> int:
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)


def _fill_part(descriptor: int, part: Path, path: Path, data: bytes) -> None:
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; None if the file does not exist or contains anything else."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def is_file_name(text: str) -> bool:
    """Whether a text is the name of one entry in a folder, and not a path."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


@cache
def boot_id() -> str:
    """An id of this boot of the machine; empty if the system has none."""
    with contextlib.suppress(OSError, ValueError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    command = ["sysctl", "-n", "kern.bootsessionuuid"]  # macOS
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return done.stdout.strip()
    return ""
