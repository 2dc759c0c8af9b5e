r"""Markdown pages that hold the files of test cases, as in ``tests/rules`` and ``tests/seeded``.

A case is a ``## heading``, its reason where it has one, and fenced files whose fence line is the path:

    ## bad_launcher/
    The launcher starts a process too many.

    ```job.yml
    command: torchrun --nproc_per_node 5 train.py
    ```
    ```expected
    bad_launcher/job.yml:1:10: error[WS203] …
    ```

Files before the first ``##`` belong to every case of the page. A heading that ends in ``/`` is the folder of
the files below it. ``expected`` is no file, but what the checker says of the case: `make golden` writes it.

The text of a fence is the content, with three exceptions. The text of a picture is its size: ``8x6``. A word
after the path says what else it is: ``link`` the target of a symbolic link, ``escaped`` a text with Python's
escapes, where ``\xe9`` is one byte and a backslash at the end of a line takes away the end of the line.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

EXPECTED = "expected"
_TOKEN = re.compile(
    r"^## (?P<heading>[^\n]+)$"
    r"|^(?P<ticks>`{3,})(?P<path>[^\s`]\S*)(?: (?P<word>link|escaped))?\n(?P<text>.*?)^(?P=ticks)$",
    re.MULTILINE | re.DOTALL,
)
_TICKS = re.compile("^```+", re.MULTILINE)
_SIZE = re.compile(r"(\d+)x(\d+)\n")


class File(NamedTuple):
    """A file of a page, as the page has it."""

    path: str
    text: str
    word: str = ""

    @property
    def content(self) -> bytes:
        """The bytes of the file; a link has those of the page."""
        if self.word == "escaped":
            return self.text.encode("ascii").decode("unicode_escape").encode("latin-1")
        size = _SIZE.fullmatch(self.text) if self.path.endswith(".png") else None
        return _make_png(int(size[1]), int(size[2])) if size else self.text.encode()

    def write(self, folder: Path) -> None:
        """Write the file at its path in a folder."""
        target = folder / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.word == "link":
            target.symlink_to(self.text.strip())
        else:
            target.write_bytes(self.content)


class Case(NamedTuple):
    """A section of a page."""

    page: Path
    heading: str
    reason: str
    files: tuple[File, ...]  # without those of every case
    expected: str | None

    @property
    def name(self) -> str:
        """What is checked, as a path in the folder of the page."""
        return self.heading.rstrip("/")

    def __str__(self) -> str:
        """The name of the case among all pages."""
        return f"{self.page.stem}/{self.name}"


class Page(NamedTuple):
    """A page and its cases."""

    path: Path
    common: tuple[File, ...]
    cases: tuple[Case, ...]

    @property
    def files(self) -> list[File]:
        """All files of the page, which then are one project."""
        return [*self.common, *(file for case in self.cases for file in case.files)]

    def list_files(self, case: Case) -> list[File]:
        """The files of a case that is a project of its own; it may replace a file of every case."""
        return list({file.path: file for file in (*self.common, *case.files)}.values())


@cache
def read(path: Path) -> Page:
    """Read a page. A fence that cannot be read is an error: its file would be missing without a word."""
    text = path.read_bytes().decode()
    broken = _TICKS.search(_TOKEN.sub("", text))
    if broken is not None:
        raise ValueError(f"{path.name}: a fence has no path, has an unknown word or is not closed")
    common: list[File] = []
    sections: list[tuple[re.Match[str], list[File]]] = []
    for token in _TOKEN.finditer(text):
        if token["heading"]:
            sections.append((token, []))
        else:
            folder = sections[-1][0]["heading"] if sections else ""
            prefix = folder if folder.endswith("/") and token["path"] != EXPECTED else ""
            files = sections[-1][1] if sections else common
            files.append(File(prefix + token["path"], token["text"], token["word"] or ""))
    return Page(path, tuple(common), tuple(_make_case(path, text, *section) for section in sections))


def _make_case(page: Path, text: str, heading: re.Match[str], files: list[File]) -> Case:
    reason = re.split(r"^(?:```|## )", text[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0].strip()
    expected = next((file.text for file in files if file.path == EXPECTED), None)
    own = tuple(file for file in files if file.path != EXPECTED)
    return Case(page, heading["heading"].strip(), reason, own, expected)


def read_all(folder: Path, pattern: str = "*.md") -> Iterator[Page]:
    """All pages below a folder."""
    return map(read, sorted(folder.rglob(pattern)))


def write(files: Iterable[File], folder: Path) -> Path:
    """Write files to a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.write(folder)
    return folder


def write_expected(case: Case, said: str) -> None:
    """Write what the checker says of a case into its page, and leave the rest of the page as it is."""
    text = case.page.read_bytes().decode()
    tokens = list(_TOKEN.finditer(text))
    first = next(at for at, token in enumerate(tokens) if (token["heading"] or "").strip() == case.heading)
    start = end = tokens[first].end()
    for token in tokens[first + 1 :]:
        if token["heading"]:
            break
        start = end = token.end()
        if token["path"] == EXPECTED:
            start = token.start()
            break
    ticks = max([*_TICKS.findall(said), "``"], key=len) + "`"
    new = f"{ticks}{EXPECTED}\n{said}{ticks}"
    whole = text[:start] + ("\n" if start == end else "") + new + text[end:]
    if whole != text:
        case.page.write_bytes(whole.encode())


def _make_png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x7f" * 3 * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
