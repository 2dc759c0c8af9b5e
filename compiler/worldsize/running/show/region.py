"""The last lines of a terminal, redrawn in place, whatever size the terminal has at that moment."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.segment import Segment

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
        rows = sum(max(1, -(-each // width)) for each in self._widths)
        rows = min(rows, max(1, self._console.height - 1))
        return (f"\x1b[{rows}A" if rows else "") + ("\r" + ERASE if self._widths else "")

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()


def _segments(line: list[Segment]) -> list[RenderableType]:
    from rich.text import Text

    return [Text(segment.text, segment.style or "") for segment in line if not segment.control]
