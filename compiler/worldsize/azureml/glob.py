"""Lines of an ignore file as azure-ai-ml reads them: git's patterns, with the client's own corners.

The client translates a line to a regular expression, which takes polynomial time where it has several
stars: an ignore file from elsewhere could keep us busy for hours. :mod:`worldsize.azureml.automaton` matches
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
        names: What the names of a path have to be; ``**`` is any number of names.
        include: Whether what matches is left out, False after a ``!``.
        only_below: Whether it matches what lies in a folder of that name, but not a file.
    """

    names: tuple[str, ...]
    include: bool
    only_below: bool


class Characters(NamedTuple):
    """What one character of a name may be: one of these and these ranges, or, ``negated``, none of them."""

    members: str = ""
    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False


STAR = Characters()
"""Any number of characters, where a character could be; as characters it would match none."""
_ONE = Characters(negated=True)


def parse_line(line: str) -> Pattern | None:
    """The pattern of a line; None for a comment, an empty line, and what can match no path."""
    text = line.strip()
    if text.startswith("#") or text in ("", "/", "!"):
        return None
    include = not text.startswith("!")
    text = text if include else text[1:]
    if "/" not in text:
        return Pattern((ANY, "*") if text == ANY else (ANY, text), include, only_below=False)
    given = text.split("/")
    names = [name for at, name in enumerate(given) if at == 0 or not name == given[at - 1] == ANY]
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
    """Whether a name of a pattern stands for itself alone."""
    return not ("*" in name or "?" in name or "[" in name or "\\" in name)


def split_tokens(name: str) -> Iterator[str | Characters]:
    """What a name of a pattern is made of.

    Raises:
        ValueError: It ends in a backslash, or a range of its characters is the wrong way round.
    """
    at, closing = 0, name.rfind("]")
    while at < len(name):
        letter, at = name[at], at + 1
        found = _CHARACTERS.match(name, at - 1) if letter == "[" and at < closing else None
        if letter == "\\":
            if at == len(name):
                raise ValueError(name)
            yield name[at]
            at += 1
        elif letter == "?":
            yield _ONE
        elif found is not None:
            yield _characters(found["set"], negated=found["not"] is not None)
            at = found.end()
        else:
            yield STAR if letter == "*" else letter


def _characters(text: str, *, negated: bool) -> Characters:
    """What stands in square brackets, read as Python's expressions read it."""
    members, ranges = [], []
    at = 0
    while at < len(text):
        low, at = text[at], at + 1
        if text[at : at + 1] == "-" and at + 1 < len(text):
            high, at = text[at + 1], at + 2
            if high < low:
                raise ValueError(text)
            ranges.append((low, high))
        else:
            members.append(low)
    return Characters("".join(members), tuple(ranges), negated)
