"""Files that are written completely or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as indented JSON, as :func:`write_whole` does, into a folder that is made if need be.

    Raises:
        OSError: It cannot be written. The file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=2) + "\n")


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
