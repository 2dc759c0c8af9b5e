"""Records `worldsize run pipelines/digits_ddp.yml` in a terminal for the README: `make recording`.

The command runs in a pseudo-terminal, an emulator keeps what is on its screen, and each line becomes text
that CSS shows as long as it was there. The picture plays once and holds its end; without animations it is its
end. It needs no script, no font and no other file, so GitHub shows it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import select
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import pyte

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / ".github" / "assets" / "run.svg"
PIPELINE = "pipelines/digits_ddp.yml"
COLUMNS, ROWS = 104, 34
PLAYED = 12.0  # seconds of the picture: a longer run is shown faster
STEP = 0.25  # seconds of the picture between two frames
WIDTH, HEIGHT, MARGIN, TITLE = 8.4, 18, 14, 30  # of a character, a line, around, of the bar
STYLE = """\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}
.w{fill:#f6f8fa;stroke:#d0d7de}.bar{fill:#818b98}
.b{font-weight:bold}.red{fill:#b3261e}.green{fill:#116329}.brown{fill:#7d4e00}.blue{fill:#0550ae}
.cyan{fill:#0b6577}.magenta{fill:#8250df}.dim{fill:#59636e}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.w{fill:#0d1117;stroke:#3d444d}.red{fill:#ff7b72}
.green{fill:#56d364}.brown{fill:#e3b341}.blue{fill:#79c0ff}.cyan{fill:#56d4dd}.magenta{fill:#d2a8ff}
.dim{fill:#9198a1}}
@keyframes on{from,to{visibility:visible}}
@keyframes off{from,to{visibility:hidden}}
.gone{visibility:hidden}
@media(prefers-reduced-motion:reduce){g{animation:none!important}}
"""


class Part(NamedTuple):
    """Characters of one style, from a column on."""

    column: int
    text: str
    style: str


Line = tuple[Part, ...]
Frame = tuple[Line, ...]


def record(command: Sequence[str], folder: Path) -> list[tuple[float, bytes]]:
    """What a command writes to a terminal, with the seconds since its start.

    Raises:
        RuntimeError: It failed.
    """
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"  # as in an activated environment
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(command[0], list(command), {**os.environ, "TERM": "xterm-256color", "CI": "", "PATH": path})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began, chunks = time.monotonic(), []
    while select.select([terminal], [], [], 300)[0]:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the last process has closed it
            break
        chunks.append((time.monotonic() - began, chunk))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        raise RuntimeError(f"exit status {status}:\n" + b"".join(chunk for _, chunk in chunks).decode())
    return chunks


def replay(chunks: Sequence[tuple[float, bytes]]) -> list[tuple[float, Frame]]:
    """The frames that differ, with the time of the picture at which each one appears."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    speed = max(1.0, chunks[-1][0] / PLAYED)
    frames: list[tuple[float, Frame]] = []
    for slot, group in itertools.groupby(chunks, key=lambda chunk: int(chunk[0] / speed / STEP)):
        for _, chunk in group:
            stream.feed(chunk)
        frame = read_screen(screen)
        if not frames or frame != frames[-1][1]:
            frames.append((slot * STEP, frame))
    return frames


def read_screen(screen: pyte.Screen) -> Frame:
    """The lines of a screen as parts of one style, without blanks at their ends."""
    lines = []
    for row in range(screen.lines):
        cells = [screen.buffer[row][column] for column in range(screen.columns)]
        parts, column = [], 0
        for style, group in itertools.groupby(cells, key=_name_style):
            text = "".join(cell.data for cell in group)
            parts.append(Part(column, text, style))
            column += len(text)
        lines.append(tuple(part for part in parts if part.text.strip()))
    return tuple(lines)


def _name_style(cell: pyte.screens.Char) -> str:
    colour = "" if cell.fg == "default" else cell.fg.removeprefix("bright")
    colour = {"black": "dim", "yellow": "brown", "white": ""}.get(colour, colour)
    return " ".join(filter(None, (colour, "b" if cell.bold else "")))


def draw(frames: Sequence[tuple[float, Frame]], title: str) -> str:
    """The frames as a picture."""
    rows = max(row for _, frame in frames for row, line in enumerate(frame, 1) if line)
    width, height = COLUMNS * WIDTH + 2 * MARGIN, rows * HEIGHT + TITLE + 2 * MARGIN
    described = " ".join(" ".join(part.text.strip() for part in line) for line in frames[-1][1] if line)
    body = "\n".join(each for row in range(rows) for each in _draw_row(frames, row))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
        f' role="img" aria-labelledby="t d"><title id="t">{escape(title)}</title><desc id="d">'
        f"{escape(described)}</desc>\n<style>{STYLE}</style>\n"
        f'<rect class="w" x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>\n'
        + "".join(f'<circle class="bar" cx="{20 + 18 * n}" cy="19" r="5" opacity=".5"/>' for n in range(3))
        + f'<text class="dim" x="{width / 2:g}" y="24" text-anchor="middle">{escape(title)}</text>\n'
        f"{body}\n</svg>\n"
    )


def _draw_row(frames: Sequence[tuple[float, Frame]], row: int) -> Iterator[str]:
    """A group for each time during which the row shows the same."""
    baseline = TITLE + MARGIN + row * HEIGHT + 14
    changes = [(at, frame[row]) for at, frame in frames]
    changes = [changes[0], *(now for before, now in itertools.pairwise(changes) if before[1] != now[1])]
    for (start, line), end in zip(changes, [at for at, _ in changes[1:]] + [None], strict=True):
        if line:
            texts = "".join(_draw_part(part, baseline) for part in line)
            if end is None:
                yield f'<g style="animation:off {start:g}s">{texts}</g>'
            else:
                yield f'<g class="gone" style="animation:on {end - start:g}s {start:g}s">{texts}</g>'


def _draw_part(part: Part, baseline: int) -> str:
    """Its length is given, since viewers have fonts of other widths."""
    text = part.text.rstrip()
    lead = len(text) - len(text.lstrip())
    x, length = MARGIN + (part.column + lead) * WIDTH, (len(text) - lead) * WIDTH
    name = f' class="{part.style}"' if part.style else ""
    return f'<text{name} x="{x:g}" y="{baseline}" textLength="{length:g}">{escape(text[lead:])}</text>'


def main() -> None:
    """Run the pipeline in a copy of the project without earlier runs, and draw it."""
    with tempfile.TemporaryDirectory(prefix="recording-") as temporary:
        folder = Path(temporary)
        for name in ("pipelines", "components"):
            (folder / name).symlink_to(ROOT / name)
        script = Path(sys.executable).with_name("worldsize")
        chunks = record([str(script), "run", PIPELINE], folder)
    picture = draw(replay(chunks), f"worldsize run {PIPELINE}")
    PICTURE.write_text(picture, encoding="utf-8")
    print(f"{chunks[-1][0]:.1f} s recorded, {len(picture) / 1000:.0f} kB in {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
