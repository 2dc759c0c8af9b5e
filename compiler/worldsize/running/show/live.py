"""The view for a terminal: a table that is redrawn, with notices above it."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from worldsize.base.shown_text import mark_controls
from worldsize.base.wording import format_duration
from worldsize.documents.diagnostics.text import wrap_words
from worldsize.running.model.results import DONE, Progress, Status, StepState

if TYPE_CHECKING:
    from typing_extensions import Self

REDRAW_SECONDS = 0.12
SHORTEST_NAME = 16  # that a name is cut to, before a column is left out
MEASURED = 1000  # wider than any table
MARGIN_ROWS = 4  # that the steps do not use: headings, count, cursor, and one free
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


class _Columns(Struct, frozen=True):
    """Which columns are drawn, and the width of the bar."""

    bar: int = 0
    validation: bool = False
    speed: bool = False
    state: bool = False
    losses: bool = False


# From wide to narrow: what people need most remains.
_CHOICES = (
    _Columns(bar=40, validation=True, speed=True, state=True, losses=True),
    _Columns(bar=20, validation=True, speed=True, state=True, losses=True),
    _Columns(bar=10, speed=True, state=True, losses=True),
    _Columns(speed=True, state=True, losses=True),
    _Columns(state=True, losses=True),
    _Columns(losses=True),
    _Columns(),
)


class LiveView:
    """Steps as a table with state, time, progress, loss and samples/s, as wide as the terminal allows."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._statuses: Mapping[str, Status] = {}
        self._drawn = 0.0
        # Redrawn by the main loop, not by a thread, so that a signal does not interrupt drawing.
        self._region = Region(console)

    def notice(self, text: str) -> None:
        """Write it above the table."""
        self._region.print_above(Text(wrap_words(mark_controls(text), self._console.width)))
        self._drawn = 0.0

    warn = notice

    def changed(self, status: Status) -> None:  # noqa: ARG002 - the table is redrawn from all of them
        """Redraw at the next tick."""
        self._drawn = 0.0

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Redraw, if the last drawing is old enough."""
        now = time.monotonic()
        self._statuses = statuses
        if now - self._drawn >= REDRAW_SECONDS:
            self._drawn = now
            rows = max(1, self._console.height - MARGIN_ROWS)
            self._region.draw(draw_table(statuses, now=now, rows=rows, width=self._console.width))

    def __enter__(self) -> Self:
        self._region.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._drawn = 0.0
        self.tick(self._statuses)
        self._region.close()


def draw_table(statuses: Mapping[str, Status], *, now: float, rows: int, width: int) -> Table:
    """Draw all steps as a table that is no wider than ``width``: columns are left out, then names cut.

    If there are more than ``rows``, those that run or have failed are shown, then the newest.
    """
    shown = _choose_shown(statuses, max(1, rows))
    done = sum(status.state in DONE for status in statuses.values())
    count = f"{done} of {len(statuses)} steps done" if len(shown) < len(statuses) else ""
    longest = max(len(count), *(cell_len(_name(status)) for status in shown), 1)
    measure = Console(width=MEASURED, file=io.StringIO()).measure
    for columns in _CHOICES:
        picture = _draw(shown, columns, now, (count, longest))
        over = measure(picture).maximum - width
        if over <= 0:
            return picture
        if longest - over >= min(longest, SHORTEST_NAME):
            return _draw(shown, columns, now, (count, longest - over))
    return _draw(shown, _CHOICES[-1], now, (count, max(1, longest - over)))


def _draw(shown: Sequence[Status], columns: _Columns, now: float, names: tuple[str, int]) -> Table:
    """Draw a table; ``names`` has a last line, and the width of the longest name."""
    count, longest = names
    picture = Table(
        box=None, pad_edge=False, header_style="dim", padding=(0, 2 if columns.speed else 1, 0, 0)
    )
    picture.add_column("", no_wrap=True)
    picture.add_column("step", no_wrap=True, overflow="ellipsis", max_width=longest)
    if columns.state:
        picture.add_column("state", no_wrap=True)
    picture.add_column("time", justify="right", no_wrap=True)
    measuring = any(status.progress for status in shown)
    for heading in _headings(columns) if measuring else ():
        picture.add_column(heading, justify="left" if heading == "progress" else "right", no_wrap=True)
    for status in shown:
        picture.add_row(*_cells(status, now, columns), *(_progress(status, columns) if measuring else ()))
    if count:
        picture.add_row("", Text(count, style="dim"))
    return picture


def _name(status: Status) -> str:
    return status.name + (f" ×{status.processes}" if status.processes > 1 else "")


def _headings(columns: _Columns) -> Iterator[str]:
    if columns.bar:
        yield "progress"
    yield "" if columns.bar else "step"
    if columns.losses:
        yield "loss"
    if columns.speed:
        yield "samples/s"


def _choose_shown(statuses: Mapping[str, Status], rows: int) -> list[Status]:
    if len(statuses) <= rows:
        return list(statuses.values())
    order = {name: index for index, name in enumerate(statuses)}
    ranked = sorted(
        statuses.values(),
        key=lambda status: (_INTEREST.get(status.state, 4), -(status.started or 0.0), order[status.name]),
    )
    return sorted(ranked[: max(1, rows - 1)], key=lambda status: order[status.name])


def _cells(status: Status, now: float, columns: _Columns) -> Iterator[Text]:
    mark, style = _LOOKS[status.state]
    yield Text(mark, style=style)
    yield Text(_name(status))
    if columns.state:
        yield Text(status.state, style=style)
    yield Text(format_duration(status.elapsed(now)) if status.started is not None else "", style="dim")


def _losses(progress: Progress, *, validation: bool) -> str:
    loss = "" if progress.loss is None else f"{progress.loss:.4f}"
    if progress.validation_loss is None or not validation:
        return loss
    return f"{loss} (validation {progress.validation_loss:.4f})"


def _progress(status: Status, columns: _Columns) -> Iterator[ProgressBar | Text]:
    progress = status.progress or Progress()
    fraction = progress.fraction
    if columns.bar:
        bar = ProgressBar(total=1.0, completed=fraction or 0.0, width=columns.bar)
        yield Text("") if fraction is None else bar
    yield Text(f"{progress.step}/{progress.total_steps}" if progress.step and progress.total_steps else "")
    if columns.losses:
        yield Text(_losses(progress, validation=columns.validation))
    if columns.speed:
        rate = progress.samples_per_second
        yield Text("" if rate is None else f"{rate:,.0f}")


ERASE = "\x1b[J"  # from the cursor to the end of the screen
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class Region:
    """Lines that are drawn again above which other lines can be printed.

    A terminal that becomes narrower breaks the lines that no longer fit, so that they take more rows; the
    cursor goes up by as many as they take now. One row stays free, so that nothing scrolls away.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._widths: list[int] = []  # of the lines on the screen

    def open(self) -> None:
        """Hide the cursor."""
        self._write(HIDE)

    def close(self) -> None:
        """Leave the lines on the screen, and show the cursor."""
        self._widths = []
        self._write(SHOW)

    def draw(self, picture: RenderableType) -> None:
        """Replace the lines."""
        console = self._console
        lines = console.render_lines(picture, console.options, pad=False)[: max(1, console.height - 1)]
        back = self._back()
        with console.capture() as capture:
            for line in lines:
                console.print(*_segments(line), sep="", end="\n", soft_wrap=True)
        self._widths = [Segment.get_line_length(line) for line in lines]
        self._write(back + capture.get())

    def print_above(self, line: RenderableType) -> None:
        """Print a line that stays, and remove the others until they are drawn again."""
        with self._console.capture() as capture:
            self._console.print(line, soft_wrap=True)
        self._write(self._back() + capture.get())
        self._widths = []

    def _back(self) -> str:
        """Go to the beginning of the first line, and remove all lines."""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-width_of_row // width)) for width_of_row in self._widths)
        rows = min(rows, max(1, self._console.height - 1))
        return (f"\x1b[{rows}A" if rows else "") + ("\r" + ERASE if self._widths else "")

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _segments(line: list[Segment]) -> list[RenderableType]:
    return [Text(segment.text, segment.style or "") for segment in line if not segment.control]
