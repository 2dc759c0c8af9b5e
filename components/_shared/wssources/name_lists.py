"""Lists of column names in one text, as inputs give them: `age,"income, yearly"`."""

from __future__ import annotations

import re
from collections.abc import Iterable

# A name in quotes, with what follows it up to the comma, or any other.
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"([^,]*)|([^,]+))')


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text: commas are between them.

    A name that contains a comma, or begins or ends with a blank, is in double quotes.
    """
    found = (match.groups("") for match in _NAME.finditer(text))
    names = (quoted.replace('""', '"') + rest.rstrip() or plain.strip() for quoted, rest, plain in found)
    return tuple(name for name in names if name)


def join_names(names: Iterable[str]) -> str:
    """Return the text from which :func:`split_names` reads the names."""
    return ",".join(map(_quote, names))


def _quote(name: str) -> str:
    plain = name == name.strip() and "," not in name and not name.startswith('"')
    return name if plain else '"' + name.replace('"', '""') + '"'
