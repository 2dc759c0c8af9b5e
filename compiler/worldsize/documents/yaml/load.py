"""Reads a YAML file: bytes to a document. Every fault of the file is a problem, never an exception."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from worldsize.base import limits, untrusted
from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.wording import describe_os_error
from worldsize.documents.yaml.compose import Composer
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar

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


# By what is left out: a class of what is allowed takes ten times as long to compile.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


class Document(Struct, eq=False, dict=True):
    """One file: its text, its tree (None if it cannot be read) and its problems."""

    source: Source
    root: Node | None
    problems: list[Problem] = field(default_factory=list)
    scalars: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path as the caller gave it; spans carry the same text."""
        return self.source.path

    @property
    def text(self) -> str:
        """The decoded text, without a byte order mark."""
        return self.source.text

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        """All comments, in order, read on first use."""
        return find_comments(self.source, self.scalars)


def load(path: str | os.PathLike[str], text: str | bytes | None = None) -> Document:
    """Read a YAML file; ``text`` is used instead of its content if it is given.

    Returns:
        The document. ``root`` is None for an unreadable, malformed, empty or oversized file, and
        ``problems`` then says why; repeated keys are problems that leave ``root`` in place.
    """
    name = os.fspath(path)
    data = text if text is not None else _read(name)
    if isinstance(data, Problem):
        return Document(Source(name, ""), None, [data])
    source, problem = _decode(name, data)
    if problem is not None:
        return Document(source, None, [problem])
    composer = Composer(source)
    try:
        composer.run()
    except limits.OverBudgetError:  # the next reader of the file gets the same answer at once
        return Document(source, None, [limits.report_over_budget(name)])
    problems = composer.problems
    if composer.root is None and not problems:
        message = "the file is empty"
        problems = [
            Problem("yaml-empty", source.span(0, 0), message, "write a spec or a job, or remove the file")
        ]
    return Document(source, composer.root, problems, composer.scalars)


def to_python(node: Node) -> Any:
    """Plain Python values by YAML 1.1 rules, as ``yaml.safe_load`` gives them.

    Aliased nodes become the same object, as there.
    """
    return _plain(node, {})


def _plain(node: Node, converted_nodes: dict[int, Any]) -> Any:
    if isinstance(node, Scalar):
        return node.value
    converted = converted_nodes.get(id(node))
    if converted is not None:
        return converted
    plain: Any
    if isinstance(node, Mapping):
        plain = {key.value: _plain(value, converted_nodes) for key, value in node.entries}
    else:
        plain = [_plain(item, converted_nodes) for item in node.items]
    converted_nodes[id(node)] = plain
    return plain


def _read(name: str) -> bytes | Problem:
    """The bytes of a regular file of bounded size, or the problem that prevents reading it."""
    try:
        return untrusted.read_bytes(name)
    except limits.OverBudgetError:
        return limits.report_over_budget(name)
    except OSError as error:
        return report_unreadable(name, error)


def report_unreadable(name: str, error: OSError, *, too_large: str = "yaml-too-large") -> Problem:
    """The problem of a file that was to be read; ``too_large`` is that of one over a limit of ours."""
    at_start, message = Source(name, "").span(0, 0), f"`{name}` cannot be read: {describe_os_error(error)}"
    if error.errno == errno.EFBIG:
        help_ = "keep data in files that the job refers to, not in the job"
        return Problem(too_large, at_start, message, help_)
    return Problem("yaml-unreadable", at_start, message, "check the path and its permissions")


def _decode(name: str, data: str | bytes) -> tuple[Source, Problem | None]:
    """The text, and the problem that makes it unusable, at the offending byte or character."""
    if isinstance(data, bytes):
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            return _not_utf8(name, data, error)
    else:
        text = data.removeprefix("\ufeff")
    source = Source(name, text)
    bad = _NOT_TEXT.search(text)
    if bad is None:
        return source, None
    message = f"character U+{ord(bad.group()):04X} is not allowed in YAML"
    span = source.span(bad.start(), bad.end())
    return source, Problem("yaml-not-text", span, message, "remove the character")


def _not_utf8(name: str, data: bytes, error: UnicodeDecodeError) -> tuple[Source, Problem]:
    before = data[: error.start].decode("utf-8", "replace").removeprefix("\ufeff")
    source = Source(name, data.decode("utf-8", "replace").removeprefix("\ufeff"))
    span = source.span(len(before), len(before) + 1)
    message = f"byte 0x{data[error.start]:02X} is not UTF-8, so the file is not text that Azure ML can read"
    return source, Problem("yaml-not-text", span, message, "save the file as UTF-8 text")
