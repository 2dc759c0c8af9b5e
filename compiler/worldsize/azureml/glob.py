"""Parses the lines of an ignore file as azure-ai-ml reads them: git's patterns with the client's deviations.

The client translates a line to a regular expression, which takes polynomial time where it has several
stars: a hostile ignore file could take hours. :mod:`worldsize.azureml.automaton` matches
all lines at once instead. The tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

ANY = "**"
_CHARACTERS = re.compile(r"\[(?:(?P<not>!)|(?!!))(?P<set>\][^\]]*|[^\]]+)\]")


class Pattern(NamedTuple):
    """One line of an ignore file.

    Attributes:
        names: A pattern for each name of a path; ``**`` is any number of names.
        include: Whether matching paths are excluded; False after a ``!``.
        only_below: Whether it matches everything in a folder of that name, but not a file.
    """

    names: tuple[str, ...]
    include: bool
    only_below: bool


class Characters(NamedTuple):
    """The characters that match: these members and ranges or, if ``negated``, all others."""

    members: str = ""
    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False


STAR = Characters()
"""Any number of characters, where a character could be; as characters it would match none."""
_ONE = Characters(negated=True)


def parse_line(line: str) -> Pattern | None:
    """Parse a line; None for a comment, an empty line, and a pattern that cannot match a path."""
    text = line.strip()
    if text.startswith("#") or text in ("", "/", "!"):
        return None
    include = not text.startswith("!")
    text = text if include else text[1:]
    if "/" not in text:
        return Pattern((ANY, "*") if text == ANY else (ANY, text), include, only_below=False)
    segments = text.split("/")
    names = [
        name for index, name in enumerate(segments) if index == 0 or not name == segments[index - 1] == ANY
    ]
    if names == [ANY, ""]:
        names = [ANY, "*", ""]  # whatever lies in a folder
    elif names[0] == "":
        del names[0]
        if names == [ANY, ""]:
            return None  # the client's expression matches nothing
    elif len(names) == 2 and names[1] == "":
        names.insert(0, ANY)
    only_below = names[-1] in ("", ANY) and len(names) > 1
    if only_below:
        names.pop()
    while len(names) > 1 and names[-1] == ANY:  # `x/**/` and `x/` are the same
        names.pop()
    if names == [ANY]:
        return Pattern((ANY, "*"), include, only_below=False)
    return None if "" in names else Pattern(tuple(names), include, only_below)


def is_literal(name: str) -> bool:
    """Whether a name of a pattern contains no wildcard."""
    return not ("*" in name or "?" in name or "[" in name or "\\" in name)


def split_tokens(name: str) -> Iterator[str | Characters]:
    """Split a name of a pattern into characters and wildcards.

    Raises:
        ValueError: It ends in a backslash, or a range of its characters is the wrong way round.
    """
    position, closing = 0, name.rfind("]")
    while position < len(name):
        letter, position = name[position], position + 1
        characters = _CHARACTERS.match(name, position - 1) if letter == "[" and position < closing else None
        if letter == "\\":
            if position == len(name):
                raise ValueError(name)
            yield name[position]
            position += 1
        elif letter == "?":
            yield _ONE
        elif characters is not None:
            yield _characters(characters["set"], negated=characters["not"] is not None)
            position = characters.end()
        else:
            yield STAR if letter == "*" else letter


def _characters(text: str, *, negated: bool) -> Characters:
    """Parse the text in square brackets as Python's regular expressions do."""
    members, ranges = [], []
    position = 0
    while position < len(text):
        low, position = text[position], position + 1
        if text[position : position + 1] == "-" and position + 1 < len(text):
            high, position = text[position + 1], position + 2
            if high < low:
                raise ValueError(text)
            ranges.append((low, high))
        else:
            members.append(low)
    return Characters("".join(members), tuple(ranges), negated)
