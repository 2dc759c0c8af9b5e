"""Binding expressions, ``${{parent.jobs.train.outputs.model}}``, and optional sections, ``$[[ … ]]``.

The grammar is the one azure-ai-ml matches with: no blanks inside the dotted name, blanks at its ends
allowed. Every part keeps its offsets in the text, so that a caret can stand under one name of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Literal

from msgspec import Struct

Side = Literal["inputs", "outputs"]

# azure-ai-ml allows braces in the name as well; leaving them out finds what an unclosed `${{` would
# swallow. An empty name is an alternative of its own: blanks on both sides of it could be told apart in
# as many ways as there are blanks.
_EXPRESSION = re.compile(r"\$\{\{\s*(?:([^\s{}]+)\s*)?\}\}")
_OPENING = re.compile(r"\$\{\{")
_SECTION = re.compile(r"\$\[\[|\]\]")


class Expression(Struct, frozen=True):
    """One ``${{…}}``: ``name`` is what stands between the braces, offsets are those in the whole text."""

    name: str
    start: int  # of the dollar sign
    end: int  # after the last brace
    name_start: int

    @property
    def parts(self) -> tuple[str, ...]:
        """The dotted parts: ``("parent", "jobs", "train", "outputs", "model")``."""
        return tuple(self.name.split("."))

    @property
    def scope(self) -> str:
        """What it reaches into, such as ``inputs``, ``plan`` or, below ``parent``, ``parent.jobs``."""
        first, *rest = self.parts
        return f"parent.{rest[0]}" if first == "parent" and rest else first

    @property
    def step(self) -> str | None:
        """The step that ``parent.jobs.<step>.…`` names."""
        parts = self.parts
        return parts[2] if self.scope == "parent.jobs" and len(parts) > 2 else None

    @property
    def side(self) -> Side | None:
        """Whether ``inputs`` or ``outputs`` are meant, of this job, its parent or another step."""
        parts = self.parts
        position = {"parent.jobs": 3, "parent.inputs": 1, "parent.outputs": 1}.get(self.scope, 0)
        word = parts[position] if len(parts) > position else None
        return "inputs" if word == "inputs" else "outputs" if word == "outputs" else None

    @property
    def port(self) -> str | None:
        """The input or output named; a member of a group keeps its dots: ``group.member``."""
        skip = {"parent.jobs": 4, "parent.inputs": 2, "parent.outputs": 2}.get(self.scope, 1)
        rest = self.parts[skip:]
        return ".".join(rest) if rest else None

    def part_range(self, index: int) -> tuple[int, int]:
        """Start and end offset of one dotted part in the whole text."""
        parts = self.parts
        start = self.name_start + sum(len(part) + 1 for part in parts[:index])
        return start, start + len(parts[index])

    def __str__(self) -> str:
        return f"${{{{{self.name}}}}}"


class Section(Struct, frozen=True):
    """One ``$[[ … ]]``, which vanishes when an optional input inside it has no value."""

    start: int
    end: int
    expressions: tuple[Expression, ...]


class Template(Struct, frozen=True):
    """A text taken apart. ``unclosed`` are offsets of ``${{`` and ``$[[`` that never end."""

    text: str
    expressions: tuple[Expression, ...]
    sections: tuple[Section, ...]
    unclosed: tuple[int, ...]


def find(text: str) -> tuple[Expression, ...]:
    """All expressions of a text, in order."""
    if "${{" not in text:
        return ()
    return tuple(_expression(match) for match in _EXPRESSION.finditer(text))


def whole(text: object) -> Expression | None:
    """The expression, where the value is text and exactly one expression; else None."""
    if not isinstance(text, str) or not text.startswith("${{"):
        return None
    match = _EXPRESSION.fullmatch(text)
    return _expression(match) if match else None


def parse(text: str) -> Template:
    """Take a command line apart.

    Brackets are matched, not counted: a ``]]`` that closes nothing is the shell's own, and so is a
    ``[[`` without a dollar sign. A section that opens inside another leaves the outer one unclosed.
    """
    expressions = find(text)
    starts = [expression.start for expression in expressions]
    opened = set(starts)
    unclosed = [match.start() for match in _OPENING.finditer(text) if match.start() not in opened]
    sections: list[Section] = []
    begin: int | None = None
    for match in _SECTION.finditer(text):
        if match.group() == "$[[":
            if begin is not None:
                unclosed.append(begin)
            begin = match.start()
        elif begin is not None:
            first, last = bisect_left(starts, begin), bisect_left(starts, match.start())
            inner = tuple(found for found in expressions[first:last] if found.end <= match.start())
            sections.append(Section(begin, match.end(), inner))
            begin = None
    if begin is not None:
        unclosed.append(begin)
    return Template(text, expressions, tuple(sections), tuple(sorted(unclosed)))


def to_step_output(step: str, output: str) -> str:
    """The text of a binding to an output of a step of the same pipeline."""
    return f"${{{{parent.jobs.{step}.outputs.{output}}}}}"


def _expression(match: re.Match[str]) -> Expression:
    name = match.group(1) or ""
    return Expression(name, match.start(), match.end(), match.start(1) if name else match.end() - 2)
