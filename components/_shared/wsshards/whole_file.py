"""Files that are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from wsshards.errors import NO_ROOM


def write_whole(path: Path, text: str) -> None:
    """Write a text beside its place, flush it to the disk, and rename it.

    Raises:
        OSError: It cannot be written. The file is as it was.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        sync(part)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file or folder to disk; does nothing on mounts that do not support it.

    Raises:
        OSError: There is no room for the file.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if path.is_file() and error.errno in NO_ROOM:
            raise
    finally:
        os.close(handle)
