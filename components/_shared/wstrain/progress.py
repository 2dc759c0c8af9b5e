"""The live view: rank 0 appends JSON lines to the file that ``WORLDSIZE_PROGRESS`` names."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

PERIOD_SECONDS = 0.2


class Progress:
    """A throttled writer of progress records; does nothing without a file.

    Args:
        path: file to append to, or None.
    """

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._last = 0.0

    def report(self, record: Mapping[str, float], *, final: bool = False) -> None:
        """Append one record, at most five a second; the final one always."""
        now = time.monotonic()
        if self._path is None or (now - self._last < PERIOD_SECONDS and not final):
            return
        self._last = now
        try:
            # Opened for each record: a line is written by one call and seen at once by the reader.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(dict(record)) + "\n")
        except OSError:
            self._path = None  # a view that cannot be written must not end a training
