"""The view for a terminal: a table that is redrawn, with notices above it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from worldsize.diagnostics.snippet import mark_controls
from worldsize.running.model.results import DONE, Progress, Status, StepState
from worldsize.running.show.views import format_duration

if TYPE_CHECKING:
    from typing_extensions import Self

REDRAW_SECONDS = 0.12
MARGIN_ROWS = 6  # of the terminal that the table does not use
_LOOKS: Mapping[StepState, tuple[str, str]] = {
    "waiting": ("·", "dim"),
    "preparing": ("·", "cyan"),
    "running": ("▶", "bold cyan"),
    "succeeded": ("✓", "green"),
    "reused": ("✓", "dim green"),
    "failed": ("✗", "bold red"),
    "stopped": ("■", "yellow"),
}
_INTEREST: Mapping[StepState, int] = {
    "running": 0, "failed": 0, "preparing": 1, "stopped": 2, "succeeded": 3, "reused": 3
}  # fmt: skip


class LiveView:
    """Steps as a table with state, time, progress, loss and samples/s."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._statuses: Mapping[str, Status] = {}
        self._drawn = 0.0
        # Redrawn by the main loop, not by a thread, so that a signal does not interrupt drawing.
        self._live = RichLive(console=console, auto_refresh=False, vertical_overflow="ellipsis")

    def notice(self, text: str) -> None:
        """Write it above the table."""
        self._console.print(Text(mark_controls(text)), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Write it above the table."""
        self.notice(text)

    def changed(self, status: Status) -> None:  # noqa: ARG002 - the table is redrawn from all of them
        """Redraw at the next tick."""
        self._drawn = 0.0

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Redraw, if the last drawing is old enough."""
        now = time.monotonic()
        self._statuses = statuses
        if now - self._drawn >= REDRAW_SECONDS:
            self._drawn = now
            rows = self._console.height - MARGIN_ROWS
            self._live.update(
                draw_table(statuses, now=now, rows=rows, width=self._console.width), refresh=True
            )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._drawn = 0.0
        self.tick(self._statuses)
        self._live.stop()


def draw_table(statuses: Mapping[str, Status], *, now: float, rows: int, width: int) -> Table:
    """Draw all steps as a table.

    If there are more than ``rows``, those that run or have failed are shown, then the newest.
    """
    shown = _choose_shown(statuses, max(1, rows))
    picture = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading, justify in (("", "left"), ("step", "left"), ("state", "left"), ("time", "right")):
        picture.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    measuring = any(status.progress for status in statuses.values())
    if measuring:
        for heading in ("progress", "", "loss", "samples/s"):
            picture.add_column(heading, justify="left" if heading == "progress" else "right", no_wrap=True)
    for status in shown:
        cells = _cells(status, now)
        picture.add_row(*cells, *(_progress(status, 20 if width >= 90 else 10) if measuring else ()))
    if len(shown) < len(statuses):
        done = sum(status.state in DONE for status in statuses.values())
        picture.add_row("", Text(f"{done} of {len(statuses)} steps done", style="dim"))
    return picture


def _choose_shown(statuses: Mapping[str, Status], rows: int) -> list[Status]:
    if len(statuses) <= rows:
        return list(statuses.values())
    order = {name: index for index, name in enumerate(statuses)}
    ranked = sorted(
        statuses.values(),
        key=lambda status: (_INTEREST.get(status.state, 4), -(status.started or 0.0), order[status.name]),
    )
    return sorted(ranked[: max(1, rows - 1)], key=lambda status: order[status.name])


def _cells(status: Status, now: float) -> tuple[Text, ...]:
    mark, style = _LOOKS[status.state]
    elapsed = status.elapsed(now)
    count = f" ×{status.processes}" if status.processes > 1 else ""
    return (
        Text(mark, style=style),
        Text(status.name + count),
        Text(status.state, style=style),
        Text(format_duration(elapsed) if status.started is not None else "", style="dim"),
    )


def _losses(progress: Progress) -> str:
    loss = "" if progress.loss is None else f"{progress.loss:.4f}"
    return loss if progress.validation_loss is None else f"{loss} (validation {progress.validation_loss:.4f})"


def _progress(status: Status, width: int) -> tuple[ProgressBar | Text, Text, Text, Text]:
    progress = status.progress
    if progress is None:
        return Text(""), Text(""), Text(""), Text("")
    fraction = progress.fraction
    bar: ProgressBar | Text = Text("")
    if fraction is not None:
        bar = ProgressBar(total=1.0, completed=fraction, width=width)
    rate = progress.samples_per_second
    return (
        bar,
        Text(f"{progress.step}/{progress.total_steps}" if progress.step and progress.total_steps else ""),
        Text(_losses(progress)),
        Text("" if rate is None else f"{rate:,.0f}"),
    )
