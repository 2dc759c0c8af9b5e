"""Whether a step failed beside a disk with no room left, which may have kept it from saying so itself."""

from __future__ import annotations

import shutil
from pathlib import Path

LEAST_BYTES = 256 * 1024  # with less than this, hardly anything can be written


def notes(folder: Path) -> tuple[str, ...]:
    """What to say of the disk that a folder is on; nothing where there is room."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ()
    if free >= LEAST_BYTES:
        return ()
    return (f"the disk of the run's folder has {free // 1024} KiB left: free space, then resume the run",)
