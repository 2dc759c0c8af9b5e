"""The event log of a run: one JSON document per line, appended by one writer."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from worldsize.base import untrusted
from worldsize.documents.secrecy.masking import Mask
from worldsize.running.record.json_files import parse_object

# Names that readers look up: a secret that equals one of these words must not change them.
_NAMES = frozenset({"run", "step", "steps", "process", "processes", "state", "best", "policy"})


def now() -> datetime:
    """The current time."""
    return datetime.now(timezone.utc)


class EventLog(contextlib.AbstractContextManager["EventLog"]):
    """Appends events to a file; each is with the operating system before the call returns.

    If the disk is full, the log ends and the run continues: ``fault`` holds the error. ``mask`` hides
    secrets, but not the names of runs, steps and states.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = now, *, mask: Mask | None = None) -> None:
        self.fault: OSError | None = None
        self.mask = mask or Mask()
        self._file = path.open("a+b", buffering=0)
        self._clock = clock
        if self._file.seek(0, os.SEEK_END):
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":  # an incomplete line of an earlier writer that died
                self._file.write(b"\n")

    def write(self, event: str, happened: datetime | None = None, /, **details: Any) -> None:
        """Append an event such as ``step_started`` with plain data, but never with an environment.

        It happens now, unless ``happened`` says when it did.
        """
        time = (happened or self._clock()).isoformat(timespec="milliseconds")
        shown = {name: value if name in _NAMES else self.mask.data(value) for name, value in details.items()}
        line = json.dumps({"time": time, "event": event, **shown}, ensure_ascii=False) + "\n"
        if self.fault is None:
            try:
                self._file.write(line.encode("utf-8", "surrogateescape"))
            except OSError as error:
                self.fault = error

    def __exit__(self, *_: object) -> None:
        self._file.close()


def scan_events(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The events of a log, and the number of lines that are not events.

    An incomplete last line, left when the runner died, is not counted. A missing log is empty.

    Raises:
        UnreadableError: The log is not a file, or is larger than any log.
    """
    events, damaged = [], 0
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for line in untrusted.read_lines(path):
            document = parse_object(line)
            if document is not None and isinstance(document.get("event"), str):
                events.append(document)
            elif line.strip() and line.endswith("\n"):
                damaged += 1
    return events, damaged
