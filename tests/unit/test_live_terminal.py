"""The live view on real pseudo-terminals of several sizes, one that is resized, and what is no terminal."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from worldsize.documents.diagnostics.text import wrap_for, wrap_words
from worldsize.running.model.results import Progress, Status
from worldsize.running.show.live import LiveView
from worldsize.running.show.views import wants_table

CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
HALF = Progress(50, 100, 1.0, 0.123456, 0.1, 1234.5, validation_loss=0.5)


@dataclass
class Screen:
    """A terminal that breaks long lines, and breaks them anew when it is resized."""

    width: int
    height: int
    lines: list[str] = field(default_factory=list)  # as printed
    hidden: bool = False  # the cursor

    def rows(self, line: str) -> int:
        return max(1, -(-cell_len(line) // self.width))

    def feed(self, text: str) -> None:
        """Show what a program has written. A program only goes up to the beginning of one of its lines."""
        at = len(self.lines)
        position, line = 0, ""
        for found in [*CONTROL.finditer(text), None]:
            chunk = text[position : found.start() if found else len(text)].replace("\r", "")
            *complete, rest = chunk.split("\n")
            for each in complete:
                self.lines[at:] = [line + each]
                at, line = at + 1, ""
            line += rest
            if found is None:
                break
            position = found.end()
            if found[2] == "A":
                up = int(found[1])
                assert up < self.height
                while up > 0:
                    at -= 1
                    up -= self.rows(self.lines[at])
                assert up == 0
            elif found[2] == "J":
                del self.lines[at:]
            elif found[1] == "?25":
                self.hidden = found[2] == "l"
        assert line == ""


@contextlib.contextmanager
def terminal(width: int, height: int) -> Iterator[tuple[TextIO, int]]:
    """A pseudo-terminal: the side of a program, and the descriptor of the other."""
    outer, inner = pty.openpty()
    resize(inner, width, height)
    settings = termios.tcgetattr(inner)
    settings[1] &= ~termios.OPOST  # lines end with \n alone
    termios.tcsetattr(inner, termios.TCSANOW, settings)
    with os.fdopen(inner, "w", encoding="utf-8") as stream:
        yield stream, outer
    os.close(outer)


def resize(descriptor: int, width: int, height: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def make_view(stream: TextIO, monkeypatch: pytest.MonkeyPatch) -> LiveView:
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    # Rich asks the terminals of the standard streams for their sizes.
    monkeypatch.setattr("rich.console._STD_STREAMS", (stream.fileno(),))
    return LiveView(Console(file=stream))


def statuses(count: int = 5) -> dict[str, Status]:
    found = {
        f"step_{number}": Status(f"step_{number}", "succeeded", started=1.0, seconds=2.0)
        for number in range(count)
    }
    found["train_a_model_with_a_long_name"] = Status(
        "train_a_model_with_a_long_name", "running", 8, 1.0, 0.0, HALF
    )
    return found


def read(outer: int) -> str:
    data = b""
    while not data.endswith(b"\x00"):
        data += os.read(outer, 65536)
    return data[:-1].decode()


def say(view: LiveView, stream: TextIO, outer: int, steps: dict[str, Status]) -> str:
    """Redraw, and return what the terminal got."""
    view.changed(next(iter(steps.values())))
    view.tick(steps)
    stream.write("\x00")
    stream.flush()
    return read(outer)


@pytest.mark.parametrize("width", [40, 48, 60, 72, 80, 100, 160, 300])
@pytest.mark.parametrize("height", [10, 24])
def test_the_table_fits(width: int, height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(width, height) as (stream, outer):
        view, screen = make_view(stream, monkeypatch), Screen(width, height)
        with view:
            for count in (2, 40, 3):
                screen.feed(say(view, stream, outer, statuses(count)))
                assert len(screen.lines) < height
                assert max(cell_len(line) for line in screen.lines) <= width
                running = next(line for line in screen.lines if "▶" in line)
                assert "train_a" in running
                assert "50/100" in running
                assert "…" not in "".join(line for line in screen.lines if "step_" in line)
            assert screen.hidden
        stream.write("\x00")
        stream.flush()
        screen.feed(read(outer))
        assert not screen.hidden
        assert sum("▶" in line for line in screen.lines) == 1


def test_a_resized_terminal_shows_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(120, 30) as (stream, outer):
        view, screen = make_view(stream, monkeypatch), Screen(120, 30)
        with view:
            screen.feed(say(view, stream, outer, statuses()))
            for width, height in ((44, 30), (200, 30), (60, 40), (90, 12)):
                resize(stream.fileno(), width, height)
                screen.width, screen.height = width, height
                view.notice("train: planned for 8 processes, running 2 here " * 3)
                screen.feed(say(view, stream, outer, statuses()))
                assert sum("▶" in line for line in screen.lines) == 1
                assert max(cell_len(line) for line in screen.lines[-4:]) <= width
        assert " ".join(line.strip() for line in screen.lines).count("planned for 8") == 12


NOTICE = (
    "train: planned for 8 processes, 2 run here, as `/a/folder/whose/name/is/longer/than/a/line/of/text` says"
)


@pytest.mark.parametrize("width", range(24, 120, 7))
def test_notices_break_between_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(width, 24) as (stream, outer):
        view, screen = make_view(stream, monkeypatch), Screen(width, 24)
        with view:
            view.notice(NOTICE)
            screen.feed(say(view, stream, outer, statuses()))
    notice = screen.lines[: next(index for index, line in enumerate(screen.lines) if "step" in line)]
    assert " ".join(line.strip() for line in notice) == NOTICE
    assert all(cell_len(line) <= width or "/a/folder" in line for line in notice)
    assert all(line.startswith("  ") for line in notice[1:])


def test_only_a_terminal_has_its_sentences_broken() -> None:
    assert wrap_for(io.StringIO(), NOTICE) == NOTICE
    with terminal(40, 24) as (stream, _):
        assert wrap_for(stream, NOTICE) == wrap_words(NOTICE, 40)
        assert wrap_for(stream, NOTICE) != NOTICE
    assert wrap_words("日本語 日本語 日本語 日本語 ok", 20) == "日本語 日本語 日本語\n  日本語 ok"
    assert wrap_words("error: one\n  = help: two three four five", 20) == (
        "error: one\n  = help: two three\n    four five"
    )


def test_states_have_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(80, 24) as (stream, outer):
        view = make_view(stream, monkeypatch)
        with view:
            text = say(view, stream, outer, statuses())
    assert [code for code, kind in CONTROL.findall(text) if kind == "m" and re.search(r"\b3[0-7]\b", code)]


def test_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(80, 24) as (stream, outer):
        make_view(stream, monkeypatch)
        monkeypatch.setenv("NO_COLOR", "1")
        view = LiveView(Console(file=stream))
        with view:
            text = say(view, stream, outer, statuses())
    colours = [code for code, kind in CONTROL.findall(text) if kind == "m" and re.search(r"\b3[0-7]\b", code)]
    assert colours == []
    assert "▶" in text


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "CI": "0"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True),
    ],
)
def test_a_table_is_for_terminals_that_can_redraw(
    variables: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with terminal(80, 24) as (stream, _):
        assert wants_table(stream) is wanted
    assert not wants_table(io.StringIO())
