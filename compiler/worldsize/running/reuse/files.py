"""JSON files that are there whole or not at all, whoever writes at the same moment and whoever dies."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

SUFFIX = ".part"  # of a file that is being written


def write(path: Path, document: Any, *, durable: bool = False) -> None:
    """Write beside, then rename.

    Args:
        path: The file; its folder is made.
        document: Plain data.
        durable: Whether the bytes reach the disk before the name does, so that a power cut leaves no
            torn file. It costs milliseconds.

    Raises:
        OSError: The file cannot be written; nothing of it is left.
    """
    data = json.dumps(document, separators=(",", ":")).encode()
    part = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}")
    try:
        file = part.open("xb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("xb")
    try:
        with file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def read(path: Path) -> dict[str, Any] | None:
    """A JSON object; None where there is no file or no such object in it."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def is_name(text: str) -> bool:
    """Whether a text can be the name of one entry of a folder, and leads nowhere else."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


def boot() -> str:
    """What tells this boot of the machine from any other; empty where the system does not say."""
    global _BOOT  # noqa: PLW0603 - it cannot change
    if _BOOT is None:
        try:
            _BOOT = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            _BOOT = ""
    return _BOOT


_BOOT: str | None = None
