"""JSON files that exist completely or not at all, even with two writers, or if the writer is killed.

What can be made again is not flushed to the disk, which would take up to 25 ms per file: only a crash of the
machine can leave such a file without its content, and then it is not JSON and counts as absent. What a file
says about other files is trusted without reading them only until the next boot (:func:`boot_id`).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from worldsize.base import limits, untrusted
from worldsize.base.whole_file import write_whole


def write_json(path: Path, document: Any, *, flush: bool = False) -> None:
    """Write a JSON file as a whole, in place of a link; the folder is made if it is missing.

    Args:
        path: The file.
        document: Its content.
        flush: Whether it cannot be made again, and waits until it is on the disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(document, separators=(",", ":")).encode()
    write_whole(path, data, follow=False, flush=flush)


def read_json(path: Path, limit: int = limits.RECORD) -> dict[str, Any] | None:
    """A JSON object; None if the file does not exist or contains anything else; warns if it is not a file."""
    try:
        return parse_object(untrusted.read_bytes(path, limit))
    except untrusted.UnreadableError as error:
        error.warn()
    except OSError:
        pass
    return None


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """A JSON object; None if the text is anything else."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
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
