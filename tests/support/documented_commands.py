"""Reads a page of the documentation as its reader does: writes files, runs commands, compares their output.

A fenced block with a ``title`` is a file of that name. In a ``console`` block, a line that starts with ``$``
is a command and the lines up to the next one are what it prints, where ``...`` stands for anything; no lines
stand for anything too. Comments before a block say more:

``<!-- folder: tests/golden/x -->`` copies a folder of the repository to where the page's commands run;
``<!-- follows: tutorial/index.md -->`` begins with the files and the shell's commands of another page;
``<!-- exit status: 1 -->`` is how the block's last command ends;
``<!-- not run: why -->`` is a block that needs what a test does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "compiler" / "docs"

# Why a command of the documentation is not run by a test; any other reason is refused.
REASONS = {
    "changes a start-up file of the shell",
    "installs from a package index",
    "needs a workspace in Azure",
    "serves until it is stopped",
    "sets up the whole clone, as continuous integration does",
    "trains for minutes",
}

_FENCE = re.compile(r"^(`{3,})(\w*)[ ]*(?:title=\"([^\"]+)\")?")
_DIRECTIVE = re.compile(r"^<!-- (folder|follows|exit status|not run)(?:: ([^>]*))? -->$")


class Command(NamedTuple):
    """A command of a page; `output` is None where the page does not show it."""

    line: int
    text: str
    output: str | None
    status: int


class Block(NamedTuple):
    """A fenced block with the directives before it."""

    line: int
    language: str
    title: str | None
    text: str
    directives: dict[str, str]


def read_blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in their order."""
    lines = iter(enumerate(page.read_text(encoding="utf-8").splitlines(), start=1))
    directives: dict[str, str] = {}
    for number, line in lines:
        if said := _DIRECTIVE.match(line):
            directives[said[1]] = said[2] or ""
        elif opened := _FENCE.match(line):
            body: list[str] = []
            for _, inner in lines:
                if inner.rstrip() == opened[1]:
                    break
                body.append(inner)
            yield Block(number, opened[2], opened[3], "".join(f"{row}\n" for row in body), directives)
            directives = {}


def read_commands(block: Block) -> list[Command]:
    """The commands of a ``console`` block; a command goes on where its line ends in a backslash."""
    found: list[list[str]] = []
    places: list[int] = []
    for offset, line in enumerate(block.text.splitlines(), start=1):
        if line.startswith("$ "):
            found.append([line[2:]])
            places.append(block.line + offset)
        elif found and found[-1][0].endswith("\\") and len(found[-1]) == 1:
            found[-1][0] = found[-1][0][:-1] + line.strip()
        elif found:
            found[-1].append(line)
    last = int(block.directives.get("exit status", 0))
    return [
        Command(place, rows[0], "\n".join(rows[1:]).strip("\n") or None, last if rows is found[-1] else 0)
        for place, rows in zip(places, found, strict=True)
    ]


def agrees(printed: str, documented: str) -> bool:
    """Whether the output is what the page shows, ends of lines aside."""
    expected = "\n".join(line.rstrip() for line in documented.splitlines())
    actual = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    at = 0
    for index, part in enumerate(expected.split("...")):
        found = actual.find(part, at) if index else (0 if actual.startswith(part) else -1)
        if found < 0:
            return False
        at = found + len(part)
    return at == len(actual) or expected.endswith("...") or actual.endswith(expected.rsplit("...", 1)[-1])
