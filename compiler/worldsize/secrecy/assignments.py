"""The values that a YAML file gives to names that say secret, wherever they stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from worldsize.base.source import Source
from worldsize.secrecy import known_formats
from worldsize.secrecy.names import is_secret, may_name_secrets
from worldsize.yaml import load
from worldsize.yaml.nodes import Mapping, Node, Scalar, Sequence

# Of an input that is declared, or a parameter that is searched, these are the values.
_VALUES = frozenset({"default", "value", "values"})
_NOT_LITERAL = re.compile(r"\$|<|\{\{|azureml:")
_SWITCHES = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off"})
# Where a file is no YAML its lines still are: blanks, a name, a colon, a value.
_LINE = re.compile(
    r"""^[ \t]*(?:-[ \t]+)?["']?(?P<name>[\w.-]{1,80})["']?[ \t]{0,8}:[ \t]{1,8}(?P<value>[^\r\n]+)""",
    re.MULTILINE,
)


class Assignment(NamedTuple):
    """A value under the name of a secret. ``start`` and ``end`` are offsets of it, without its quotes."""

    name: str
    value: str
    start: int
    end: int


def find_assignments(root: Node | None, text: str) -> Iterator[Assignment]:
    """The secrets of a file by their names, in no order.

    Args:
        root: Its tree; None where it is not YAML, and is read line by line.
        text: The file.
    """
    if not may_name_secrets(text):
        return
    if root is None:
        yield from _find_in_lines(text)
        return
    waiting: list[Node] = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scalar) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Sequence):
            waiting += node.items
            continue
        for key, value in node.entries:
            waiting.append(value)
            if is_secret(key.text):
                yield from _find_in_value(key.text, value)
        name, listed = node.get("name"), node.get("value")
        if isinstance(name, Scalar) and isinstance(listed, Scalar) and is_secret(name.text):
            yield from _find_in_value(name.text, listed)


def _find_in_lines(text: str) -> Iterator[Assignment]:
    for found in _LINE.finditer(text):
        if is_secret(found["name"]):
            value = found["value"].rstrip()
            yield Assignment(found["name"], value, found.start("value"), found.start("value") + len(value))


def _find_in_value(name: str, node: Node) -> Iterator[Assignment]:
    """What a name is given: a scalar, a list of them, or what a declaration says of its value."""
    if isinstance(node, Scalar):
        quoted = node.style in ("'", '"')
        if _is_literal(node):
            yield Assignment(name, node.text, node.start + quoted, node.end - quoted)
    elif isinstance(node, Sequence):
        for item in node.items:
            if isinstance(item, Scalar):
                yield from _find_in_value(name, item)
    else:
        for key, value in node.entries:
            if key.text in _VALUES and not isinstance(value, Mapping):
                yield from _find_in_value(name, value)


def _is_literal(node: Scalar) -> bool:
    return node.text.lower() not in _SWITCHES and _NOT_LITERAL.match(node.text) is None


def mask_assignments(source: Source, found: Iterable[Assignment]) -> Source:
    """The text with these values, and what looks like a provider's key, starred out; positions stay the same.

    Of a long one the beginning stays, by which its owner recognises it.
    """
    text = source.text
    spans = {(each.start, each.end) for each in found}
    spans |= {(secret.start, secret.end) for secret in known_formats.find_known_secrets(text)}
    pieces, position = [], 0
    for start, end in sorted(spans):
        if start >= position:
            kept = known_formats.SHOWN if end - start >= known_formats.LONG else 0
            pieces += [text[position : start + kept], re.sub(r"\S", "*", text[start + kept : end])]
            position = end
    return Source(source.path, "".join([*pieces, text[position:]])) if pieces else source


def replace_values(path: str, text: str, word: str) -> str:
    """A YAML or JSON text with a word, quoted, in place of the values under names of secrets."""
    pieces, position = [], 0
    for each in sorted(set(find_assignments(load(path, text).root, text)), key=lambda each: each.start):
        quoted = text[each.start - 1 : each.start] in ("'", '"')
        if each.start >= position:
            pieces += [text[position : each.start], word if quoted else f'"{word}"']
            position = each.end
    return "".join([*pieces, text[position:]])
