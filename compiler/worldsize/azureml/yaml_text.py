"""Plain values as the YAML a careful person writes: block style, ordered keys, quotes where needed.

What is written reads back as what was given, by YAML 1.1 (PyYAML, and so Azure ML); a text that
YAML 1.1 *or* 1.2 would take for something else is quoted, so that no reader is misled.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any

from worldsize.azureml.model import Field
from worldsize.base import budget
from worldsize.yaml.scalars import classify

WIDTH = 100  # columns after which running text is folded

_FIRST = re.compile(r"[^\s\-?:,\[\]{}#&*!|>'\"%@`=<]|[-?:](?=[^\s,\[\]{}])")
_ENDS_PLAIN = re.compile(r": |:$| #|[\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]")
_NUMBER_IN_1_2 = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$|0o[0-7]+$|0x[0-9a-fA-F]+$")
_DOCUMENT_MARK = re.compile(r"(---|\.\.\.)(\s|$)")
_NOT_PRINTABLE = re.compile(
    "[^\n -~\xa1-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029]"
)
_BREAKS_BEFORE = re.compile(r" (?=--|\$\[\[|&& |\|\| )")


def dump(document: dict[str, Any]) -> str:
    """A document as text. Values may be :class:`Field`, whose comment is written behind them."""
    budget.check_time()
    return "\n".join(_mapping(document, 0)) + "\n"


def scalar(value: Any) -> str:
    """One value on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    text = str(value)
    return text if is_plain(text) else _quoted(text)


def is_plain(text: str) -> bool:
    """Whether a text means itself without quotes."""
    return bool(
        _FIRST.match(text)
        and not _ENDS_PLAIN.search(text)
        and not text.endswith(" ")
        and not _DOCUMENT_MARK.match(text)
        and classify(text) == "str"
        and not _NUMBER_IN_1_2.match(text)
    )


def _float(value: float) -> str:
    special = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
    text = repr(value)
    if text in special:
        return special[text]
    # YAML 1.1 reads an exponent only behind a dot: 1e-05 would be text.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _quoted(text: str) -> str:
    if "\\" in text and "'" not in text and not _NOT_PRINTABLE.search(text) and "\n" not in text:
        return f"'{text}'"
    escaped = json.dumps(text, ensure_ascii=False)
    return _NOT_PRINTABLE.sub(lambda match: _escape(match.group()), escaped).replace("\x7f", "\\x7f")


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


def _mapping(mapping: dict[Any, Any], indent: int) -> Iterator[str]:
    for key, held in mapping.items():
        yield from _entry(f"{' ' * indent}{scalar(key)}:", held, indent)


def _entry(head: str, held: Any, indent: int) -> Iterator[str]:
    value, comment = (held.value, held.comment) if isinstance(held, Field) else (held, None)
    tail = f"  # {' '.join(comment.split())}" if comment else ""
    if isinstance(value, dict) and value:
        yield head + tail
        yield from _mapping(value, indent + 2)
    elif isinstance(value, (list, tuple)) and value:
        yield head + tail
        yield from _sequence(list(value), indent + 2)
    elif isinstance(value, (dict, list, tuple)):
        yield f"{head} {'{}' if isinstance(value, dict) else '[]'}{tail}"
    else:
        yield from _leaf(head, value, indent + 2, tail)


def _sequence(items: list[Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for item in items:
        value = item.value if isinstance(item, Field) else item
        if isinstance(value, (dict, list, tuple)) and value:
            nested = list(
                _mapping(value, indent + 2) if isinstance(value, dict) else _sequence(list(value), indent + 2)
            )
            yield f"{pad}- {nested[0].lstrip(' ')}"
            yield from nested[1:]
        else:
            yield from _entry(f"{pad}-", item, indent)


def _leaf(head: str, value: Any, indent: int, tail: str) -> Iterator[str]:
    if isinstance(value, str):
        block = _literal(value) or _folded(value, indent)
        if block is not None:
            header, lines = block
            yield f"{head} {header}{tail}"
            yield from (f"{' ' * indent}{line}" if line else "" for line in lines)
            return
    yield f"{head} {scalar(value)}{tail}"


def _literal(text: str) -> tuple[str, list[str]] | None:
    """A text of several lines as ``|``, where it survives that unchanged."""
    body = text.rstrip("\n")
    if "\n" not in body or body[0] in " \t\n" or _NOT_PRINTABLE.search(text):
        return None
    lines = body.split("\n")
    if any(line != line.rstrip() or line.startswith("\t") for line in lines):
        return None
    trailing = len(text) - len(body)
    if trailing > 1:
        return None
    return ("|" if trailing else "|-"), lines


def _folded(text: str, indent: int) -> tuple[str, list[str]] | None:
    """A long line as ``>-``, broken before its options where it is a command, else at the width."""
    if len(text) + indent <= WIDTH or "\n" in text or text != text.strip() or _NOT_PRINTABLE.search(text):
        return None
    lines = (
        _BREAKS_BEFORE.split(text) if _BREAKS_BEFORE.search(text) else list(_wrapped(text, WIDTH - indent))
    )
    # Folding turns a break into one blank; a line that starts or ends with another would keep its own.
    if len(lines) < 2 or any(not line or line != line.strip() for line in lines):
        return None
    return ">-", lines


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line
