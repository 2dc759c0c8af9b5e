"""The keys of a YAML text and their places, also where the text is not valid YAML.

While a line is being typed, the document around it seldom parses. The outline follows indentation in block
style and brackets in flow style, skips what it does not understand, and never fails. It takes linear time.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from msgspec import Struct, field

Path = tuple[str | int, ...]
DEPTH = 100  # what is nested deeper counts as part of the level above, as the checker refuses it
_KEY = re.compile(
    r"""(?P<key>"[^"\n]*"|'[^'\n]*'|[^\s:#"'{}\[\],][^:#\n]{0,200}|[^\s:#"'{}\[\],]):(?=[ \t\r\n]|$)"""
)
_DASH = re.compile(r"-(?=[ \t\r\n]|$)")
_PROPERTY = re.compile(r"[&!][^\s,\[\]{}]*[ \t]+")
_COMMENT = re.compile(r"(?:^|[ \t])#")


class Entry(NamedTuple):
    """A key (empty for an item of a list) and the text of its value, on its line or in brackets."""

    path: Path
    key_start: int
    key_end: int
    value_start: int
    value_end: int


class Level(NamedTuple):
    """A key or item whose contents are indented more than ``indent``."""

    indent: int
    path: Path
    is_item: bool = False


class Bracket(Struct):
    """An open ``{`` or ``[`` with the part of its current entry that was read."""

    kind: str
    path: Path
    start: int  # of the current token
    key: str | None = None
    key_range: tuple[int, int] = (0, 0)
    index: int = 0

    @property
    def value_path(self) -> Path | None:
        """The path of the value that stands here; None where a key is expected."""
        if self.kind == "[":
            return _extend(self.path, self.index)
        return None if self.key is None else _extend(self.path, self.key)


def _extend(path: Path, part: str | int) -> Path:
    return (*path, part) if len(path) < DEPTH else path


class Outline(Struct, eq=False):
    """The entries of a text, and the state of reading at its end."""

    text: str
    entries: dict[Path, Entry] = field(default_factory=dict)
    levels: list[Level] = field(default_factory=list)
    brackets: list[Bracket] = field(default_factory=list)
    counts: dict[Path, int] = field(default_factory=dict)
    block: tuple[int, Path, int] | None = None  # a block scalar: indent of its key, path, start of its text

    def children(self, path: Path) -> list[str]:
        """The keys directly below a path."""
        depth = len(path)
        return [str(entry[-1]) for entry in self.entries if len(entry) == depth + 1 and entry[:depth] == path]

    def value(self, *path: str | int) -> str | None:
        """The text of a value on one line, without its quotes."""
        entry = self.entries.get(path)
        return None if entry is None else unquote(self.text[entry.value_start : entry.value_end])

    def at(self, offset: int) -> tuple[Entry, Literal["key", "value"]] | None:
        """The entry whose key or value is at an offset; of several the innermost."""
        best: tuple[Entry, Literal["key", "value"]] | None = None
        for entry in self.entries.values():
            if entry.key_start <= offset <= entry.key_end and entry.key_end > entry.key_start:
                return entry, "key"
            inside = entry.value_start <= offset <= entry.value_end and entry.value_end > entry.value_start
            if inside and (best is None or entry.value_start >= best[0].value_start):
                best = (entry, "value")
        return best


def unquote(text: str) -> str:
    """A scalar's text without quotes."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def read_outline(text: str) -> Outline:
    """Read the keys of a text."""
    outline = Outline(text)
    start = 0
    for line in text.split("\n"):
        _read_line(outline, start, start + len(line))
        start += len(line) + 1
    return outline


def _read_line(outline: Outline, start: int, end: int) -> None:
    text = outline.text
    position = start
    while position < end and text[position] in " \t":
        position += 1
    indent = measure_indent(text[start:position])
    origin = position - indent  # where the line would start if its tabs were blanks
    if outline.block is not None and not _leave_block(outline, position, indent, end):
        return
    if outline.brackets:
        if not _abandons_brackets(outline, position, indent, end):
            _read_flow(outline, position, end)
            return
        outline.brackets.clear()
    if position >= end or text[position] in "#\r":
        return
    position = _read_dashes(outline, origin, position, end)
    match = _KEY.match(text, position, end)
    if match is not None:
        path = _open_level(outline, position - origin, unquote(match["key"]))
        _read_value(outline, path, match.span("key"), match.end(), end)
    elif position < end and outline.levels and outline.levels[-1].is_item:
        _read_value(outline, outline.levels[-1].path, (position, position), position, end)
    elif position < end and text[position] in "{[":
        path = outline.levels[-1].path if outline.levels else ()
        _read_flow(outline, position, end, path)


def measure_indent(blanks: str) -> int:
    """How far a line is indented; a tab, which YAML refuses, takes as many columns as in a terminal."""
    return len(blanks.expandtabs()) if "\t" in blanks else len(blanks)


def _leave_block(outline: Outline, position: int, indent: int, end: int) -> bool:
    """Whether a line is no longer part of a block scalar; the entry of the scalar grows with it."""
    assert outline.block is not None
    owner, path, _ = outline.block
    blank = position >= end or outline.text[position] == "\r"
    if blank or indent > owner:
        if path in outline.entries and not blank:
            outline.entries[path] = outline.entries[path]._replace(value_end=end)
        return False
    outline.block = None
    return True


def _abandons_brackets(outline: Outline, position: int, indent: int, end: int) -> bool:
    """Whether a bracket was never closed: a key follows that cannot be inside of it."""
    owner = outline.levels[-1].indent if outline.levels else -1
    return indent <= owner and _KEY.match(outline.text, position, end) is not None


def _read_dashes(outline: Outline, origin: int, position: int, end: int) -> int:
    """Open the items that begin on a line; the position after their dashes."""
    text = outline.text
    while _DASH.match(text, position, end):
        column = position - origin
        while outline.levels and (
            outline.levels[-1].indent > column
            or (outline.levels[-1].indent == column and outline.levels[-1].is_item)
        ):
            outline.levels.pop()
        parent = outline.levels[-1].path if outline.levels else ()
        index = outline.counts.get(parent, 0)
        outline.counts[parent] = index + 1
        outline.levels.append(Level(column, _extend(parent, index), is_item=True))
        position += 1
        while position < end and text[position] in " \t":
            position += 1
    return position


def _open_level(outline: Outline, column: int, key: str) -> Path:
    path = _extend(find_parent(outline.levels, column), key)
    while outline.levels and outline.levels[-1].indent >= column:
        outline.levels.pop()
    outline.levels.append(Level(column, path))
    return path


def find_parent(levels: list[Level], column: int) -> Path:
    """The path of the mapping that a key at a column belongs to."""
    return next((level.path for level in reversed(levels) if level.indent < column), ())


def _read_value(outline: Outline, path: Path, key: tuple[int, int], position: int, end: int) -> None:
    text = outline.text
    while position < end and text[position] in " \t":
        position += 1
    while (match := _PROPERTY.match(text, position, end)) is not None:
        position = match.end()
    if position < end and text[position] in "{[":
        outline.entries[path] = Entry(path, *key, position, end)
        _read_flow(outline, position, end, path)
        return
    stop = find_comment(text, position, end)
    outline.entries[path] = Entry(path, *key, position, max(position, stop))
    if position < end and text[position] in "|>":
        outline.block = (outline.levels[-1].indent if outline.levels else -1, path, end)


def find_comment(text: str, start: int, end: int) -> int:
    """The end of a plain or quoted value on a line: before the comment and trailing blanks."""
    if start < end and text[start] in "'\"":
        close = text.find(text[start], start + 1, end)
        return end if close < 0 else close + 1
    match = _COMMENT.search(text, start, end)
    stop = end if match is None else match.start()
    while stop > start and text[stop - 1] in " \t\r":
        stop -= 1
    return stop


def _read_flow(outline: Outline, position: int, end: int, path: Path = ()) -> None:
    """Read one line of what is in brackets."""
    text = outline.text
    if outline.brackets and not text[outline.brackets[-1].start : position].strip():
        outline.brackets[-1].start = position
    while position < end:
        character = text[position]
        if character in "\"'" and not text[outline.brackets[-1].start : position].strip():
            close = text.find(character, position + 1, end)
            position = end if close < 0 else close + 1
        elif text.startswith("${{", position):
            close = text.find("}}", position, end)
            position = end if close < 0 else close + 2
        elif character == "#" and text[position - 1] in " \t\n":
            if not text[outline.brackets[-1].start : position].strip():
                outline.brackets[-1].start = end
            return
        else:
            position = _read_flow_character(outline, character, position, end, path)
            if not outline.brackets:
                return


def _read_flow_character(outline: Outline, character: str, position: int, end: int, path: Path) -> int:
    text, brackets = outline.text, outline.brackets
    if character in "{[":
        inner = (brackets[-1].value_path or brackets[-1].path) if brackets else path
        brackets.append(Bracket(character, inner, position + 1))
    elif character in "}]":
        _finish_entry(outline, position)
        closed = brackets.pop()
        if closed.path in outline.entries:
            outline.entries[closed.path] = outline.entries[closed.path]._replace(value_end=position + 1)
    elif character == ",":
        _finish_entry(outline, position)
        brackets[-1].index += 1
        brackets[-1].key, brackets[-1].start = None, position + 1
    elif character == ":" and (
        position + 1 >= end or text[position + 1] in " \t\r" or text[position - 1] in "\"'"
    ):
        _take_key(outline, position)
    return position + 1


def _take_key(outline: Outline, position: int) -> None:
    bracket = outline.brackets[-1]
    if bracket.kind == "{" and bracket.key is None:
        start, end = _strip(outline.text, bracket.start, position)
        bracket.key, bracket.key_range = unquote(outline.text[start:end]), (start, end)
        bracket.start = position + 1
        path = _extend(bracket.path, bracket.key)
        outline.entries[path] = Entry(path, start, end, position + 1, position + 1)


def _finish_entry(outline: Outline, position: int) -> None:
    bracket = outline.brackets[-1]
    start, end = _strip(outline.text, bracket.start, position)
    path = bracket.value_path
    if path is not None and (bracket.kind == "{" or start < end):
        outline.entries[path] = Entry(path, *bracket.key_range, start, end)
    elif path is None and start < end:  # a key without a value
        path = _extend(bracket.path, unquote(outline.text[start:end]))
        outline.entries[path] = Entry(path, start, end, end, end)


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    content = text[start:end].lstrip(" \t\r\n")
    start = end - len(content)
    return start, start + len(content.rstrip(" \t\r\n"))
