"""The changes of a file as a unified diff, which ``patch`` and ``git apply`` read."""

from __future__ import annotations

import difflib

from worldsize.diagnostics.sources import shown_path
from worldsize.fixing.apply import Change

_NO_END = "\n\\ No newline at end of file\n"


def unified_diff(change: Change) -> str:
    """What a file's fixes change; the byte order mark and line ends are part of the lines."""
    name = shown_path(change.path)
    before, after = (data.decode().split("\n") for data in (change.before, change.after))
    lines = difflib.unified_diff(_ended(before), _ended(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else line + _NO_END for line in lines)


def _ended(lines: list[str]) -> list[str]:
    """Lines with their line feed; the last one lacks it where the file does."""
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
