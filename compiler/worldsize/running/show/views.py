"""Views of an active run for logs and pipes, and the formats that all views share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from worldsize.base.shown_text import mark_controls
from worldsize.base.wording import format_duration
from worldsize.documents.diagnostics.text import is_terminal
from worldsize.documents.secrecy.masking import Mask
from worldsize.running.model.results import Progress, Status, View

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRESS_SECONDS = 5.0


def wants_table(stream: TextIO) -> bool:
    """Whether a stream shows a table that is redrawn: a terminal that moves its cursor, and no CI job."""
    dumb = os.environ.get("TERM", "").lower() in ("", "dumb", "unknown")
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return is_terminal(stream) and not dumb and not in_ci


class PlainView:
    """Lines without times of day: one when a step changes, one every few seconds of progress.

    A step that reports no progress leaves a reader with silence: ``hint`` is said once, of the first of them.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        hint: Callable[[str], str] | None = None,
    ) -> None:
        self._write = write
        self._clock = clock
        self._hint = hint
        self._said: dict[str, tuple[float, Progress | None]] = {}

    def notice(self, text: str) -> None:
        """Write it."""
        self._write(mark_controls(text))

    def warn(self, text: str) -> None:
        """Write it."""
        self.notice(text)

    def changed(self, status: Status) -> None:
        """Write the states that a reader needs."""
        if status.state == "running":
            self._said[status.name] = (self._clock(), None)
            count = f", {status.processes} processes" if status.processes > 1 else ""
            self._write(f"{status.name}: running{count}")
        elif status.state == "reused":
            self._write(f"{status.name}: reused")
        elif status.state == "succeeded" and status.started is None:
            self._write(f"{status.name}: had succeeded")
        elif status.state in ("succeeded", "failed") or (status.state == "stopped" and status.started):
            said = self._said.get(status.name, (0.0, None))[1]
            last = format_progress(status.progress) if status.progress is not None else None
            if last is not None and (said is None or format_progress(said) != last):
                self._write(f"{status.name}: {last}")
            self._write(f"{status.name}: {status.state} after {format_duration(status.seconds)}")

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Write new progress every few seconds."""
        now = self._clock()
        for status in statuses.values():
            if status.state != "running":
                continue
            if status.progress is None:
                self._say_hint(status.name, now)
                continue
            when, what = self._said.get(status.name, (0.0, None))
            if status.progress != what and now - when >= PROGRESS_SECONDS:
                self._said[status.name] = (now, status.progress)
                self._write(f"{status.name}: {format_progress(status.progress)}")

    def _say_hint(self, name: str, now: float) -> None:
        if self._hint is not None and now - self._said.get(name, (now, None))[0] >= PROGRESS_SECONDS:
            self._write(f"{name}: {self._hint(name)}")
            self._hint = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class MaskedView:
    """Another view, from which secrets are hidden."""

    def __init__(self, view: View, mask: Mask) -> None:
        self._view = view
        self._mask = mask

    def notice(self, text: str) -> None:
        """Show a masked notice."""
        self._view.notice(self._mask.text(text))

    def warn(self, text: str) -> None:
        """Show a masked warning."""
        self._view.warn(self._mask.text(text))

    def changed(self, status: Status) -> None:
        """Show the new state of a step."""
        self._view.changed(status)

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Update the view."""
        self._view.tick(statuses)

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._view.__exit__(*error)


class QuietView(PlainView):
    """Shows warnings only, or nothing."""

    def __init__(self, warn: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(lambda _line: None)
        self._warn = warn

    def warn(self, text: str) -> None:
        """Write it."""
        self._warn(mark_controls(text))


def format_progress(progress: Progress) -> str:
    """``step 20/140, loss 1.2345, 812 samples/s``."""
    parts = []
    if progress.step is not None:
        total = f"/{progress.total_steps}" if progress.total_steps else ""
        parts.append(f"step {progress.step}{total}")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.4f}")
    if progress.validation_loss is not None:
        parts.append(f"validation loss {progress.validation_loss:.4f}")
    if progress.samples_per_second is not None:
        parts.append(f"{progress.samples_per_second:,.0f} samples/s")
    return ", ".join(parts) or "running"
