"""Rewrites one part of an expectation that several tests share, of which any may run, side by side."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path


def update_text(path: Path, change: Callable[[str], str]) -> None:
    """Replace a file's text by what ``change`` makes of it, one process after the other.

    Workers of pytest that read while another one wrote found an empty file, and wrote it back.
    """
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        text = path.read_text(encoding="utf-8")
        changed = change(text)
        assert changed.strip() or not text.strip(), f"`{path.name}` would become empty"
        # In place, because a renamed file would be another one, which nobody holds.
        with path.open("r+b") as file:
            file.write(changed.encode())
            file.truncate()


def replace_part(path: Path, before: str, after: str) -> None:
    """Replace the one part of a file that is ``before``."""

    def change(text: str) -> str:
        assert text.count(before) == 1, f"`{path.name}` does not have this part once: {before[:60]!r}"
        return text.replace(before, after)

    update_text(path, change)
