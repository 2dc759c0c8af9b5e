"""Lines that edits make long are wrapped as black does, where the script keeps its own short."""

from __future__ import annotations

import io
import itertools
import tokenize
from collections.abc import Iterator

LIMIT = 100
_PAIRS = {")": "(", "]": "[", "}": "{"}
_READ = (*_PAIRS, *_PAIRS.values(), ",", "for", "if", "else")
_TRAILERS = ("", ":", ",")


def wrap_lines(before: str, after: str, unit: str) -> str:
    """The text after the edits, with their long lines wrapped; ``unit`` is one level of indentation."""
    own = set(before.splitlines())
    if any(len(line) > LIMIT for line in own):
        return after
    return "".join(
        line if len(text := line.rstrip("\r\n")) <= LIMIT or text in own else _wrap(line, unit)
        for line in after.splitlines(keepends=True)
    )


def _wrap(line: str, unit: str) -> str:
    code = line.strip()
    end = line[len(line.rstrip("\r\n")) :]
    between = "\r\n" if end == "\r\n" else "\n"
    indent = line[: len(line) - len(line.lstrip())]
    return between.join(_split(indent, code, unit)) + end


def _split(indent: str, code: str, unit: str) -> Iterator[str]:
    """A line as it is where it fits or has no bracket at its end; else what the bracket holds on its own."""
    found = _find_last_bracket(code) if len(indent + code) > LIMIT else None
    if found is None:
        yield indent + code
        return
    start, stop, marks = found
    body, inner = code[start + 1 : stop].strip(), indent + unit
    yield indent + code[: start + 1]
    for part in [body] if len(inner + body) <= LIMIT else _divide(code, start, stop, marks):
        yield from _split(inner, part, unit)
    yield indent + code[stop:]


def _divide(code: str, start: int, stop: int, marks: list[tuple[str, int]]) -> Iterator[str]:
    """What a bracket holds, part by part: of a comprehension, of a list, or of a choice by `if`."""
    words = {word for word, _ in marks}
    chosen = ("for",) if "for" in words else (",",) if "," in words else ("if", "else")
    edges = [start + 1, *(at for word, at in marks if word in chosen), stop]
    for first, last in itertools.pairwise(edges):
        part = code[first:last].strip().removeprefix(",").strip()
        if part:
            yield f"{part}," if chosen == (",",) else part


def _find_last_bracket(code: str) -> tuple[int, int, list[tuple[str, int]]] | None:
    """The bracket that ends a line, and where what it holds can be divided; None if the line is not whole."""
    opened: list[tuple[str, int, list[tuple[str, int]]]] = []
    last = None
    for token in _read_tokens(code):
        at = token.start[1]
        if token.string in "([{":
            opened.append((token.string, at, []))
        elif token.string in _PAIRS:
            if not opened or opened[-1][0] != _PAIRS[token.string]:
                return None
            _, start, marks = opened.pop()
            last = (start, at, marks)
        elif opened:
            opened[-1][2].append((token.string, at))
    if last is None or opened or code[last[1] + 1 :].strip() not in _TRAILERS or last[1] == last[0] + 1:
        return None
    return last


def _read_tokens(code: str) -> list[tokenize.TokenInfo]:
    """The brackets of a line, and where these can be divided; none of a part or a comment."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(code).readline)]
    except (tokenize.TokenError, SyntaxError):
        return []
    if any(token.type == tokenize.COMMENT for token in tokens):
        return []
    kinds = (tokenize.OP, tokenize.NAME)
    return [each for each in tokens if each.type in kinds and each.string in _READ]
