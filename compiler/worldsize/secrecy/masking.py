"""Hides values wherever they stand: in commands, records, messages and excerpts.

A value of eight characters or more is hidden wherever it occurs, also as JSON, a shell, a URL or Base64
write it. A shorter one is hidden where no letter or digit stands beside it, because its letters occur in
other words too. One of up to three characters, and a word such as ``true`` or ``none``, is not looked for:
it is hidden where it is known to have been put, under its own name and in the command that takes it.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from worldsize.secrecy import known_formats
from worldsize.secrecy.names import is_secret, words

HIDDEN = "***"
_ANYWHERE = 8  # characters from which a value is looked for inside of words
_SHORTEST = 4
_COMMON = words("""
    true false none null nan auto default yes on off test local main prod train eval name data value text file
    json info debug user root admin azure token secret password changeme cuda
""")
_NOTHING = r"(?!)"
_OPEN, _CLOSE = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"


class Mask:
    """Replaces secrets by ``***``.

    Args:
        values: The secrets of a run, as text. What looks like a provider's key is hidden without being one.
        within: Where all texts are known that will be masked, one that holds them all: of thousands of
            secrets only those are looked for that can occur in it.
    """

    def __init__(self, values: Iterable[str] = (), within: str | None = None) -> None:
        self._within = within
        self.values = frozenset(value for value in values if _is_sought(value))
        self._pattern: re.Pattern[str] | None = None

    def add(self, values: Iterable[str]) -> None:
        """Hide more values from here on."""
        more = {value for value in values if _is_sought(value)} - self.values
        if more:
            self.values |= more
            self._pattern = None

    def text(self, text: str) -> str:
        """The text without secrets."""
        shown = self._sought().sub(HIDDEN, text) if self.values else text
        for secret in reversed([*known_formats.find_known_secrets(shown)]):
            shown = f"{shown[: secret.start]}{HIDDEN}{shown[secret.end :]}"
        return shown

    def data(self, value: Any) -> Any:
        """Plain data without secrets: every text in it, and what is named like one."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._member(str(key), each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(each) for each in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and str(value) in self.values:
            return HIDDEN
        return value

    def named(self, values: Mapping[str, str]) -> dict[str, str]:
        """Variables, inputs or parameters: those that are named like secrets have no value."""
        return {name: HIDDEN if is_secret(name) else self.text(value) for name, value in values.items()}

    def _member(self, name: str, value: Any) -> Any:
        if isinstance(value, str | int | float) and not isinstance(value, bool) and is_secret(name):
            return HIDDEN
        return self.data(value)

    def _sought(self) -> re.Pattern[str]:
        if self._pattern is None:
            ways = {way for value in self.values for way in _spell(value)}
            if self._within is not None:
                ways = _select_occurring(ways, self._within)
            longest_first = sorted(ways, key=lambda way: (-len(way), way))
            self._pattern = re.compile("|".join(map(_pattern_for, longest_first)) or _NOTHING)
        return self._pattern


def find_secrets(name: str, value: str) -> frozenset[str]:
    """The secrets of a value that was given under a name: itself, the keys of known forms in it, or none."""
    found = {value[secret.start : secret.end] for secret in known_formats.find_known_secrets(value)}
    return frozenset({*found, value} if is_secret(name) else found)


def _select_occurring(ways: set[str], text: str) -> set[str]:
    """Those of the ways that can occur in a text: both of their ends do."""
    pieces = {text[start : start + _SHORTEST] for start in range(len(text) - _SHORTEST + 1)}
    return {
        way
        for way in ways
        if len(way) < _SHORTEST or (way[:_SHORTEST] in pieces and way[-_SHORTEST:] in pieces)
    }


def _is_sought(value: str) -> bool:
    return len(value.strip()) >= _SHORTEST and value.strip().lower() not in _COMMON and "***" not in value


def _spell(value: str) -> Iterator[str]:
    """A value as other writers write it; of several lines also each that is long enough."""
    stripped = value.strip()
    for text in {value, stripped, *(line.strip() for line in value.splitlines())}:
        if not _is_sought(text):
            continue
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield repr(text)[1:-1]
        yield shlex.quote(text).strip("'")
        data = text.encode("utf-8", "surrogatepass")
        yield quote(data, safe="")
        yield quote(data)
        yield quote_plus(data)
        if len(text) >= _ANYWHERE:
            yield base64.b64encode(data).decode().rstrip("=")


def _pattern_for(way: str) -> str:
    escaped = re.escape(way)
    return escaped if len(way) >= _ANYWHERE else f"{_OPEN}{escaped}{_CLOSE}"
