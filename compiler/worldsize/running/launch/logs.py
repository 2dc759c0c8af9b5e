"""Reads growing log files by complete characters and lines.

Ranks write to their files directly, not through the runner: nothing is lost when the runner dies, and a slow
terminal does not slow a training down. So a reader may see half a character or half a line.
"""

from __future__ import annotations

import codecs
import os
import re
from pathlib import Path

from worldsize.base import untrusted
from worldsize.base.shown_text import mark_controls

CHUNK_BYTES = 1 << 16
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


class Decoder:
    """Decodes bytes to complete lines, and keeps an incomplete character or line for the next bytes.

    Bytes that are not UTF-8 become the replacement character.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> list[str]:
        """The lines that these bytes complete, without their ends; ``final`` gives the last one too."""
        text = self._rest + self._decoder.decode(data, final)
        *lines, self._rest = text.split("\n")
        if final and self._rest:
            lines.append(self._rest)
            self._rest = ""
        return [_settled(line) for line in lines]


class Follower:
    """Reads a growing file from its last position; a file that does not exist yet is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._inode = 0
        self._decoder = Decoder()

    def lines(self, *, final: bool = False) -> list[str]:
        """The lines that were completed since the last call."""
        lines: list[str] = []
        try:
            with untrusted.open_file(self.path) as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode:  # another attempt of the step has started a new file
                    self._inode, self._position, self._decoder = status.st_ino, 0, Decoder()
                file.seek(self._position)
                # What is added meanwhile waits for the next call.
                while chunk := file.read(min(CHUNK_BYTES, max(0, status.st_size - self._position))):
                    self._position += len(chunk)
                    lines += self._decoder.feed(chunk)
        except untrusted.UnreadableError as error:
            error.warn()
        except OSError:
            pass
        return lines + (self._decoder.feed(b"", final=True) if final else [])


def by_number(name: str) -> list[tuple[int, str]]:
    """A key that sorts ``rank-10`` behind ``rank-9``."""
    return [(len(word) if word.isdigit() else 0, word) for word in re.split(r"(\d+)", name)]


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a file that are not empty; at most 64 KiB of it are read."""
    start, data = 0, b""
    with untrusted.passed_over(), untrusted.open_file(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - CHUNK_BYTES)
        file.seek(start)
        data = file.read(CHUNK_BYTES)
    lines = Decoder().feed(data, final=True)
    complete_lines = lines[1:] if start else lines
    return [line for line in complete_lines if line.strip()][-count:]


def _settled(line: str) -> str:
    """The line that a terminal shows in the end: without colours, and after carriage returns."""
    return mark_controls(_ESCAPE.sub("", line).rstrip("\r").rpartition("\r")[2])
