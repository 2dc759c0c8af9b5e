"""Finds and masks the values that a YAML file assigns to names of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from worldsize.base.patterns import compile_later
from worldsize.base.source import Source
from worldsize.documents.secrecy import known_formats
from worldsize.documents.secrecy.names import find_lines_with_hints, is_secret, may_name_secrets
from worldsize.documents.yaml import load
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

# Keys under which a declared input or a swept parameter has its values.
_VALUES = frozenset({"default", "value", "values"})
_NOT_LITERAL = compile_later(r"\$|<|\{\{|azureml:")
_SWITCHES = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off"})
# A line of a file that is not valid YAML: blanks, a name, a colon, a value.
_LINE = compile_later(
    r"""^[ \t]*(?:-[ \t]+)?["']?(?P<name>[\w.-]{1,80})["']?[ \t]{0,8}:[ \t]{1,8}(?P<value>[^\r\n]+)""",
    re.MULTILINE,
)


class Assignment(NamedTuple):
    """A value under the name of a secret; ``start`` and ``end`` are its offsets without quotes."""

    name: str
    value: str
    start: int
    end: int


def find_assignments(root: Node | None, text: str) -> Iterator[Assignment]:
    """Find the secrets of a file by their names, in no particular order.

    Without a ``root`` it is not YAML and is read line by line.
    """
    if not may_name_secrets(text):
        return
    if root is None:
        yield from _find_in_lines(text)
        return
    pending: list[Node] = [root]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, Scalar) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Sequence):
            pending += node.items
            continue
        for key, value in node.entries:
            pending.append(value)
            if is_secret(key.text):
                yield from _find_in_value(key.text, value)
        name, value_node = node.get("name"), node.get("value")
        if isinstance(name, Scalar) and isinstance(value_node, Scalar) and is_secret(name.text):
            yield from _find_in_value(name.text, value_node)


def _find_in_lines(text: str) -> Iterator[Assignment]:
    for match in _LINE.finditer(text):
        if is_secret(match["name"]):
            value = match["value"].rstrip()
            yield Assignment(match["name"], value, match.start("value"), match.start("value") + len(value))


def _find_in_value(name: str, node: Node) -> Iterator[Assignment]:
    """The assigned scalars: the value itself, the items of a list, or the values of a declaration."""
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


def mask_assignments(source: Source, assignments: Iterable[Assignment]) -> Source:
    """Replace values, and what looks like a provider's key, by stars; positions stay the same.

    The beginning of a long secret stays, so that its owner recognises it.
    """
    text = source.text
    spans = {(assignment.start, assignment.end) for assignment in assignments}
    spans |= {(secret.start, secret.end) for secret in known_formats.find_known_secrets(text)}
    pieces, position = [], 0
    for start, end in sorted(spans):
        if start >= position:
            kept = known_formats.SHOWN if end - start >= known_formats.LONG else 0
            pieces += [text[position : start + kept], re.sub(r"\S", "*", text[start + kept : end])]
            position = end
    return Source(source.path, "".join([*pieces, text[position:]])) if pieces else source


def replace_values(path: str, text: str, word: str) -> str:
    """Replace the values under names of secrets by a quoted word, in a YAML or JSON text."""
    pieces, position = [], 0
    assignments = set(find_assignments(load(path, text).root, text))
    for assignment in sorted(assignments, key=lambda assignment: assignment.start):
        quoted = text[assignment.start - 1 : assignment.start] in ("'", '"')
        if assignment.start >= position:
            pieces += [text[position : assignment.start], word if quoted else f'"{word}"']
            position = assignment.end
    return "".join([*pieces, text[position:]])


# `password = "…"`, `password="…"`, `"password": "…"`, `environ["PASSWORD"] = "…"`, `password: str = "…"`.
_QUOTED = compile_later(
    r"""(?<![\w.-])(?P<name>[A-Za-z_][\w-]{1,79})["']?\]?(?:[ ]?:[ ]?str)?[ ]{0,8}[=:][ ]{0,8}"""
    r"""(?P<quote>["'])(?P<value>[^"'\s$`{}<>][^"'\n$`{}<>]{2,299})(?P=quote)"""
)
# `export PASSWORD=…` of a shell, `ENV PASSWORD=…` of a Dockerfile.
_BARE = compile_later(
    r"""(?:^|[\s;&|])(?P<name>[A-Za-z_]\w{1,79})=(?P<value>[^\s"'$`{}<>();&|=,\\][^\s"'$`{}<>();&|,\\]{2,299})"""
    r"(?=[\s;&|]|$)"
)
# `--password …` of a command.
_FLAG = compile_later(
    r"""(?:^|\s)--(?P<name>[A-Za-z][\w-]{1,79})(?:=|[ ]{1,4})(?P<quote>["']?)"""
    r"""(?P<value>[^\s"'$`{}<>();&|=\\-][^\s"'$`{}<>();&|\\]{2,299})(?P=quote)(?=\s|$)"""
)


_LONGEST = 4000  # characters of a line that is read; what is longer was generated
PATTERNS = {"python": (_QUOTED,), "shell": (_QUOTED, _BARE, _FLAG), "command": (_BARE, _FLAG)}


def find_code_assignments(text: str, language: str) -> Iterator[Assignment]:
    """Find the values under names of secrets, in no particular order.

    The ``language`` is ``python``, ``shell``, or ``command`` for a YAML file, whose keys are read as YAML.
    """
    for first, end in find_lines_with_hints(text):
        start = first
        for line in text[first:end].splitlines(keepends=True):
            for pattern in PATTERNS[language] if len(line) <= _LONGEST else ():
                for match in pattern.finditer(line):
                    if is_secret(match["name"]):
                        place = (start + match.start("value"), start + match.end("value"))
                        yield Assignment(match["name"], match["value"], *place)
            start += len(line)
