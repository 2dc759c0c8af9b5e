"""Plain values as the YAML a careful person writes: block style, keys in order, comments behind values.

ruamel.yaml's emitter does the layout, the quotes and the comments. It is fed with events, not with a
document: ruamel's own way from a document to events takes two thirds of the time of a large pipeline.

The text reads back as the same values by YAML 1.1 (PyYAML, and so Azure ML). Text that YAML 1.1 *or* 1.2
reads as something else is quoted, so that it misleads no reader.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML, events
from ruamel.yaml.emitter import Emitter
from ruamel.yaml.error import CommentMark
from ruamel.yaml.tag import Tag
from ruamel.yaml.tokens import CommentToken

from worldsize.azureml.model import Field
from worldsize.base import limits
from worldsize.documents.yaml.scalars import classify_scalar

WIDTH = 100  # columns after which running text is folded

_NUMBER_IN_1_2 = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$|0o[0-7]+$|0x[0-9a-fA-F]+$")
_NOT_PRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_BREAKS_BEFORE = re.compile(r" (?=--|\$\[\[|&& |\|\| )")
_NOT_FINITE = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
_FOLD = "\a "  # ruamel.yaml breaks a line of a folded text here
_STRING = Tag(suffix="tag:yaml.org,2002:str")
_UNTAGGED = (True, True, True)  # neither plain nor quoted values show their tag
_MARK = CommentMark(0)
_YAML = YAML()
_Emit = Callable[[events.Event], None]


class Flow(dict[str, Any]):
    """A mapping that is written on one line: ``{key: value}``."""


class _LineEvent(events.ScalarEvent):
    """A key with its value on one line, neither of which needs quotes."""

    __slots__ = ()


class _LineEmitter(Emitter):
    """ruamel.yaml's emitter, with shorter ways for what a large pipeline consists of."""

    stream: Any = None  # an ordinary attribute: the original checks the stream at each piece of text
    # A large pipeline repeats the same few texts in every step.
    analyze_scalar = staticmethod(
        lru_cache(maxsize=4096)(Emitter(io.StringIO(), allow_unicode=True, dumper=_YAML).analyze_scalar)
    )

    def emit(self, event: events.Event) -> None:
        """Take an event; the original waits for the next ones to see whether a collection is empty."""
        self.event = event
        self.state()

    def expect_block_mapping_key(self, first: bool = False) -> None:
        """Write a line, or what the original expects."""
        if type(self.event) is not _LineEvent:
            super().expect_block_mapping_key(first)
            return
        self.write_indent()
        self.write_plain(self.event.value)
        if self.event.comment:
            self.write_post_comment(self.event)
        self.state = self.expect_block_mapping_key

    def write_plain(self, text: str, _split: bool = True) -> None:
        """Write text in one piece: plain text has no line break here, and no line is too long."""
        text = text if self.whitespace else f" {text}"
        self.whitespace = self.indention = False
        self.column += len(text)
        self.stream.write(text)


def dump(document: Mapping[str, Any], *, header: str | None = None, paragraphs: str | None = None) -> str:
    """A document as YAML.

    Args:
        document: Mappings, lists and scalars. A :class:`Field` stands for its value, and its comment is
            written behind it.
        header: A comment for the first line.
        paragraphs: The key of a mapping whose entries have an empty line between them, and one before.
    """
    text = io.StringIO()
    if header:
        text.write(f"{_remark(header)[1:]}\n")
    # Texts are folded by this module alone.
    emitter = _LineEmitter(text, width=sys.maxsize, allow_unicode=True, dumper=_YAML)
    emitter.best_sequence_indent, emitter.sequence_dash_offset = 4, 2
    emitter.emit(events.StreamStartEvent())
    emitter.emit(events.DocumentStartEvent(explicit=False))
    _emit_mapping(emitter.emit, document, 0, paragraphs=paragraphs)
    emitter.emit(events.DocumentEndEvent(explicit=False))
    emitter.emit(events.StreamEndEvent())
    return text.getvalue()


def _emit_mapping(
    emit: _Emit,
    mapping: Mapping[Any, Any],
    indent: int,
    comment: str | None = None,
    *,
    paragraphs: str | None = None,
    is_spaced: bool = False,
) -> None:
    """Emit a mapping whose keys start at column ``indent``."""
    limits.check_time()
    emit(
        events.MappingStartEvent(None, None, True, flow_style=not mapping, comment=_behind(comment, mapping))
    )
    for number, (key, value) in enumerate(mapping.items()):
        is_paragraph = key == paragraphs
        gap = [None, [_token("\n")]] if is_paragraph or (is_spaced and number) else None
        if gap is None and (line := _line(key, value, indent)):
            emit(line)
            continue
        emit(_scalar(key, gap))
        if is_paragraph:
            _emit_mapping(emit, value, indent + 2, is_spaced=True)
        else:
            _emit_node(emit, value, indent + 2)
    emit(events.MappingEndEvent(comment=_behind(comment)))


def _line(key: Any, value: Any, indent: int) -> _LineEvent | None:
    """The event of an entry that fits on a plain line; None for any other."""
    value, comment = (value.value, value.comment) if isinstance(value, Field) else (value, None)
    if not isinstance(key, str) or len(key) > WIDTH:
        return None
    if isinstance(value, str):
        if len(value) + indent + 2 > WIDTH or not _is_plain(value):
            return None
    elif isinstance(value, (dict, list, tuple, Mapping)):  # a dictionary is far quicker to know
        return None
    if not _is_plain(key):
        return None
    text = value if isinstance(value, str) else _word(value)
    return _LineEvent(None, None, _UNTAGGED, f"{key}: {text}", comment=_behind(comment))


def _emit_node(emit: _Emit, value: Any, indent: int) -> None:
    """Emit a value; its further lines start at column ``indent``."""
    value, comment = (value.value, value.comment) if isinstance(value, Field) else (value, None)
    if isinstance(value, Flow):
        _emit_flow(emit, value, comment)
    elif isinstance(value, (dict, Mapping)):
        _emit_mapping(emit, value, indent, comment)
    elif isinstance(value, (list, tuple)):
        emit(
            events.SequenceStartEvent(None, None, True, flow_style=not value, comment=_behind(comment, value))
        )
        for item in value:
            _emit_node(emit, item, indent + 2)
        emit(events.SequenceEndEvent(comment=_behind(comment)))
    elif isinstance(value, str) and (block := _literal(value) or _folded(value, indent)):
        text, style = block
        remark = [None, [f" {_remark(comment)}"]] if comment else None
        emit(events.ScalarEvent(None, None, _UNTAGGED, text, style=style, comment=remark))
    else:
        emit(_scalar(value, _behind(comment)))


def _emit_flow(emit: _Emit, mapping: Flow, comment: str | None = None) -> None:
    """Emit a mapping on one line."""
    emit(events.MappingStartEvent(None, None, True, flow_style=True))
    for key, value in mapping.items():
        emit(_scalar(key))
        if isinstance(value, Flow):
            _emit_flow(emit, value)
        else:
            emit(_scalar(value))
    emit(events.MappingEndEvent(comment=_behind(comment)))


def _behind(comment: str | None, container: object = None) -> list[CommentToken | None] | None:
    """A comment behind a value; behind the end of an empty ``container``, not behind its start."""
    if not comment or (container is not None and not container):
        return None
    return [_token(_remark(comment)), None]


def _remark(comment: str) -> str:
    return f" # {' '.join(comment.split())}"


def _token(text: str) -> CommentToken:
    return CommentToken(text, _MARK, None)


def _scalar(value: Any, comment: list[Any] | None = None) -> events.ScalarEvent:
    """A value on one line."""
    if not isinstance(value, str):
        return events.ScalarEvent(None, None, _UNTAGGED, _word(value), comment=comment)
    implicit, style = _choose_style(value)
    tag = None if value else _STRING  # the emitter asks for the tag of empty text only
    return events.ScalarEvent(None, tag, implicit, value, style=style, comment=comment)


@lru_cache(maxsize=4096)
def _choose_style(text: str) -> tuple[tuple[bool, bool, bool], str | None]:
    """Whether a text may be plain, and its style where only one will do."""
    may_be_plain = classify_scalar(text) == "str" and not _NUMBER_IN_1_2.match(text)
    style = '"' if "\n" in text or _NOT_PRINTABLE.search(text) else None
    return (may_be_plain, True, True), style


@lru_cache(maxsize=4096)
def _is_plain(text: str) -> bool:
    """Whether a text needs no quotes where it is a short key or a value."""
    (may_be_plain, *_), style = _choose_style(text)
    return may_be_plain and style is None and _LineEmitter.analyze_scalar(text).allow_block_plain


def _word(value: Any) -> str:
    """A value that is not text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = _NOT_FINITE.get(repr(value)) or repr(value)
        # YAML 1.1 reads an exponent only behind a dot: 1e-05 is text to it.
        return text.replace("e", ".0e") if "." not in text else text
    return value.isoformat() if isinstance(value, (dt.date, dt.datetime)) else str(value)


def _literal(text: str) -> tuple[str, str] | None:
    """A text of several lines as ``|``, where it survives that unchanged."""
    body = text.rstrip("\n")
    if "\n" not in body or body[0] in " \t\n" or _NOT_PRINTABLE.search(text) or len(text) - len(body) > 1:
        return None
    if any(line != line.rstrip() or line.startswith("\t") for line in body.split("\n")):
        return None
    return text, "|"


def _folded(text: str, indent: int) -> tuple[str, str] | None:
    """A long line as ``>-``, broken before its options where it is a command, else at the width."""
    if len(text) + indent <= WIDTH or "\n" in text or text != text.strip() or _NOT_PRINTABLE.search(text):
        return None
    if _BREAKS_BEFORE.search(text):
        lines = _BREAKS_BEFORE.split(text)
    else:
        lines = textwrap.wrap(text, WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    # Folding turns a break into one blank; a line that starts or ends with another would keep its own.
    if len(lines) < 2 or " ".join(lines) != text or any(line != line.strip() for line in lines):
        return None
    return _FOLD.join(lines), ">"
