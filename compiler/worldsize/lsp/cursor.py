"""What is being typed: a key or a value, of which path, or a comment."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from worldsize.lsp.outline import Outline, Path, find_parent, measure_indent, read_outline

Kind = Literal["key", "value", "comment"]
_WORD_AFTER = re.compile(r"[\w.$/:@-]*")
_KEY_AFTER = re.compile(r"[\w$-]*")
_EXPRESSION = re.compile(r"\$\{\{\s*(?P<name>[^\s{}]*)\Z")
_INDENT = re.compile(r"[ \t]*")
_DASHES = re.compile(r"(?:-[ \t]+)*")


class Cursor(Struct, frozen=True):
    """A place where text is typed.

    ``path`` is that of the value, or of the mapping that a key is typed into. ``text[start:end]`` is the word
    that a completion replaces, and ``typed`` what of it stands before the cursor. In an expression ``${{…``
    the word is the name in the braces.
    """

    kind: Kind
    path: Path
    start: int
    end: int
    typed: str
    in_expression: bool = False
    in_flow: bool = False


def find_cursor(text: str, offset: int) -> Cursor:
    """What is typed at an offset, whether or not the text is valid YAML."""
    before = text[:offset]
    outline = read_outline(before)
    line_start = before.rfind("\n") + 1
    line = before[line_start:]
    expression = _EXPRESSION.search(line)
    comment = _find_comment_start(line)
    if comment is not None and outline.block is None:
        return Cursor("comment", (), line_start + comment, offset, line[comment:])
    path, start, is_key = _find_token(outline, line, line_start, offset)
    if expression is not None:
        end = _end(text, offset, is_key=False)
        start = line_start + expression.start("name")
        return Cursor("value", path, start, end, text[start:offset], in_expression=True)
    end = _end(text, offset, is_key=is_key)
    kind: Kind = "key" if is_key else "value"
    return Cursor(kind, path, start, end, text[start:offset], in_flow=bool(outline.brackets))


def _end(text: str, offset: int, *, is_key: bool) -> int:
    match = (_KEY_AFTER if is_key else _WORD_AFTER).match(text, offset)
    return offset if match is None else match.end()


def _find_comment_start(line: str) -> int | None:
    """Where the comment of a line starts; quotes are not followed over several lines."""
    quote = ""
    for index, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and (index == 0 or line[index - 1] in " \t:,[{-"):
            quote = character
        elif character == "#" and (index == 0 or line[index - 1] in " \t"):
            return index
    return None


def _find_token(outline: Outline, line: str, line_start: int, offset: int) -> tuple[Path, int, bool]:
    """The path, the start of the word and whether it is a key."""
    if outline.brackets:
        bracket = outline.brackets[-1]
        start = bracket.start
        while start < offset and outline.text[start] in " \t\r\n\"'":
            start += 1
        if bracket.value_path is None:
            return bracket.path, start, True
        return bracket.value_path, start, False
    if outline.block is not None and line_start > outline.block[2]:
        return outline.block[1], offset - len(line.rsplit(" ", maxsplit=1)[-1]), False
    indent = _match_end(_INDENT, line, 0)
    content = _match_end(_DASHES, line, indent)
    last = next(reversed(outline.entries.values()), None)
    if last is not None and last.key_end > last.key_start >= line_start and last.value_start <= offset:
        start = min(last.value_start, offset)
        return last.path, start + (outline.text[start : start + 1] in ("'", '"')), False
    if content > indent and outline.levels and outline.levels[-1].is_item:
        return outline.levels[-1].path, line_start + content, True
    column = measure_indent(line[:indent]) + content - indent
    return _find_mapping(outline, column), line_start + content, True


def _find_mapping(outline: Outline, column: int) -> Path:
    """The mapping of a key at a column; one that is indented below a plain value is meant beside it."""
    path = find_parent(outline.levels, column)
    while path in outline.entries:
        entry = outline.entries[path]
        value = outline.text[entry.value_start : entry.value_end]
        if not value or value[0] in "&!":
            break
        path = path[:-1]
    return path


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()
