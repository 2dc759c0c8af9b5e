"""The event log of a run: one JSON document a line, only ever appended, by one writer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


def now() -> datetime:
    """The time of an event."""
    return datetime.now(timezone.utc)


class EventLog:
    """Appends events to a file; each is on disk's side of the process before the call returns.

    A disk that is full ends the log, not the run: ``fault`` then says why, and events are dropped.

    Args:
        path: The file.
        clock: Gives the time of an event.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = now) -> None:
        self.fault: OSError | None = None
        self._file = path.open("ab", buffering=0)
        self._clock = clock

    def write(self, event: str, **details: Any) -> None:
        """Append one event.

        Args:
            event: What happened, such as ``step_started``.
            details: Plain data. Never an environment: only what we set ourselves may be logged.
        """
        time = self._clock().isoformat(timespec="milliseconds")
        line = json.dumps({"time": time, "event": event, **details}, ensure_ascii=False) + "\n"
        if self.fault is None:
            try:
                self._file.write(line.encode("utf-8", "surrogateescape"))
            except OSError as error:
                self.fault = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The events of a log. A last line that was torn by a crash is left out."""
    events = []
    with contextlib.suppress(ValueError):
        for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
            events.append(json.loads(line))  # noqa: PERF401 - what was read before the torn line counts
    return events
