"""JSON files that are there whole or not at all, also with two writers at once or one that is killed.

Nothing waits for the disk, which takes up to 25 ms a file: only a power cut or a crash of the whole machine
can leave a file without its bytes, such a file is no JSON and counts as absent, and whatever a file says of
others is believed without a look at their bytes only until the next :func:`boot`.
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
    """Write a JSON file beside its place, then rename it; its folder is made.

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
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; None where there is no file, or something else in it."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def is_file_name(text: str) -> bool:
    """Whether a text can be the name of one entry of a folder, and leads nowhere else."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


@cache
def boot_id() -> str:
    """What tells this boot of the machine from any other; empty where the system does not say."""
    with contextlib.suppress(OSError, ValueError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    command = ["sysctl", "-n", "kern.bootsessionuuid"]  # macOS
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return done.stdout.strip()
    return ""
