"""The texts that diagnostics point into, and the names they are shown under."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.base.source import Source

Sources = Mapping[str, Source]


def shown_path(path: str, folder: str | None = None) -> str:
    """``path`` relative to ``folder`` (default: the working folder), with forward slashes.

    A path on another drive stays absolute; an option, which is a place on the command line, stays as it is.
    """
    if path.startswith("--"):
        return path
    try:
        relative = os.path.relpath(path, folder)
    except ValueError:
        relative = path
    return relative.replace(os.sep, "/")


def line_of(sources: Sources, path: str, line: int) -> str | None:
    """The text of one line, or None where the file's text is not at hand."""
    source = sources.get(path)
    if source is None or not source.text:
        return None
    return source.line(line)
