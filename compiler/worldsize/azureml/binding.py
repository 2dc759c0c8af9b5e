"""Binding expressions, ``${{parent.jobs.train.outputs.model}}``, optional sections, ``$[[ … ]]``, commands.

The grammar is the one azure-ai-ml matches with: no blanks inside the dotted name, blanks at its ends
allowed. Every part keeps its offsets in the text, so that a caret can stand under one name of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

Side = Literal["inputs", "outputs"]

# azure-ai-ml allows braces in the name as well; excluding them finds what an unclosed `${{` would
# swallow. An empty name is an alternative of its own: blanks on both sides of it could be told apart in
# as many ways as there are blanks.
_EXPRESSION = re.compile(r"\$\{\{\s*(?:([^\s{}]+)\s*)?\}\}")
_OPENING = re.compile(r"\$\{\{")
_SECTION = re.compile(r"\$\[\[|\]\]")


class Expression(Struct, frozen=True):
    """One ``${{…}}`` with its dotted name taken apart; offsets are those in the whole text."""

    name: str  # the text between the braces
    start: int  # of the dollar sign
    end: int  # after the last brace
    name_start: int
    parts: tuple[str, ...]  # of the name: ``("parent", "jobs", "train", "outputs", "model")``
    scope: str  # such as ``inputs``, ``plan`` or, below ``parent``, ``parent.jobs``
    step: str | None  # that ``parent.jobs.<step>.…`` names
    side: Side | None  # of this job, its parent or another step
    port: str | None  # the input or output; a member of a group keeps its dots: ``group.member``

    def part_range(self, index: int) -> tuple[int, int]:
        """Start and end offset of one dotted part in the whole text."""
        parts = self.parts
        start = self.name_start + sum(len(part) + 1 for part in parts[:index])
        return start, start + len(parts[index])

    def __str__(self) -> str:
        return f"${{{{{self.name}}}}}"


def make_expression(name: str, start: int, end: int, name_start: int) -> Expression:
    """The expression of a dotted name."""
    parts = tuple(name.split("."))
    scope = f"parent.{parts[1]}" if parts[0] == "parent" and len(parts) > 1 else parts[0]
    step = parts[2] if scope == "parent.jobs" and len(parts) > 2 else None
    at = {"parent.jobs": 3, "parent.inputs": 1, "parent.outputs": 1}.get(scope, 0)
    word = parts[at] if len(parts) > at else None
    side: Side | None = "inputs" if word == "inputs" else "outputs" if word == "outputs" else None
    port = ".".join(parts[at + 1 :]) or None
    return Expression(name, start, end, name_start, parts, scope, step, side, port)


class Section(Struct, frozen=True):
    """One ``$[[ … ]]``, which is removed if an optional input inside it has no value."""

    start: int
    end: int
    expressions: tuple[Expression, ...]


class Template(Struct, frozen=True):
    """A parsed command. ``unclosed`` are the offsets of ``${{`` and ``$[[`` without an end."""

    text: str
    expressions: tuple[Expression, ...]
    sections: tuple[Section, ...]
    unclosed: tuple[int, ...]


def find_expressions(text: str) -> tuple[Expression, ...]:
    """Find all expressions of a text, in order."""
    return _find(text) if "${{" in text else ()


@lru_cache(maxsize=1 << 10)  # several readers ask for those of one command line in turn
def _find(text: str) -> tuple[Expression, ...]:
    return tuple(_expression(match) for match in _EXPRESSION.finditer(text))


def parse_expression(text: object) -> Expression | None:
    """Parse a value that is exactly one expression; None for any other value."""
    if not isinstance(text, str) or not text.startswith("${{"):
        return None
    match = _EXPRESSION.fullmatch(text)
    return _expression(match) if match else None


def parse_template(text: str) -> Template:
    """Parse a command line.

    Brackets are matched, not counted: a ``]]`` that closes nothing is the shell's own, and so is a
    ``[[`` without a dollar sign. A section that opens inside another leaves the outer one unclosed.
    """
    expressions = find_expressions(text)
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
            inner = tuple(
                expression for expression in expressions[first:last] if expression.end <= match.start()
            )
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
    return make_expression(name, match.start(), match.end(), match.start(1) if name else match.end() - 2)


def fill_command(command: str, inputs: Mapping[str, str | None], outputs: Mapping[str, str]) -> str:
    """Fill in a command; an input without a value is None or absent.

    Nothing is quoted, because Azure ML quotes nothing: the text goes into the shell line as it is. Every
    optional section is either unwrapped or removed. An expression with an unknown name stays in the text;
    rules report it before anything runs.
    """
    template = parse_template(command)
    pieces: list[str] = []
    position = 0
    for section in template.sections:
        pieces.append(command[position : section.start])
        if all(_value(expression, inputs, outputs) is not None for expression in section.expressions):
            pieces.append(command[section.start + 3 : section.end - 2])
        position = section.end
    kept = "".join([*pieces, command[position:]])
    return fill_expressions(kept, lambda expression: _value(expression, inputs, outputs))


def fill_expressions(text: str, find: Callable[[Expression], str | None]) -> str:
    """Replace each expression of a text by its value; one without a value stays."""

    def fill(match: re.Match[str]) -> str:
        value = find(_expression(match))
        return match.group() if value is None else value

    return _EXPRESSION.sub(fill, text)


def _value(
    expression: Expression, inputs: Mapping[str, str | None], outputs: Mapping[str, str]
) -> str | None:
    port = expression.port
    if port is None:
        return None
    if expression.scope == "inputs":
        return inputs.get(port)
    return outputs.get(port) if expression.scope == "outputs" else None
