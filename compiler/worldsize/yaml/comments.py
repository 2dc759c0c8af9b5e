"""Finds comments between the scalars: libyaml drops them, and suppressions are comments."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from worldsize.base.source import Source
from worldsize.base.span import Span

_COMMENT = re.compile(r"(?:(?<=[\s])|(?<![\s\S]))#[^\r\n]*")
_BLOCK_HEADER = re.compile(r"[|>][-+0-9]*[ \t]*(?:#[^\r\n]*)?")


class Comment(Struct, frozen=True):
    """``# text`` up to the end of the line; ``own_line`` is True if the line has nothing else."""

    span: Span
    text: str
    own_line: bool


def find_comments(source: Source, scalars: Iterable[tuple[int, int, str]]) -> tuple[Comment, ...]:
    """All comments of a file.

    Args:
        source: The file's text.
        scalars: Start, end and style of every scalar in the order of the file: a ``#`` inside one
            is content, but the header line of a block scalar may end in a comment.
    """
    text = source.text
    if "#" not in text:
        return ()
    ranges = [(_content_start(text, start, style), end) for start, end, style in scalars]
    comments: list[Comment] = []
    position = 0
    match = _COMMENT.search(text)
    while match is not None:
        offset, after = match.span()
        while position < len(ranges) and ranges[position][1] <= offset:
            position += 1
        if position < len(ranges) and ranges[position][0] <= offset:
            after = ranges[position][1]
        else:
            comments.append(_comment(source, offset, after))
        match = _COMMENT.search(text, after)
    return tuple(comments)


def _comment(source: Source, start: int, end: int) -> Comment:
    line, column = source.position(start)
    own_line = not source.line(line)[: column - 1].strip()
    return Comment(source.span(start, end), source.text[start:end], own_line)


def _content_start(text: str, start: int, style: str) -> int:
    if style not in ("|", ">"):
        return start
    header = _BLOCK_HEADER.match(text, start)
    return header.end() if header else start
