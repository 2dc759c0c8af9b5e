"""Patterns of ignore files as azure-ai-ml reads them, matched in time linear in the pattern and the path.

The client translates a pattern to a regular expression, which takes polynomial time where it has several
stars: an ignore file from elsewhere could keep us busy for hours. The tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

_STAR = "*"
_ANY = "**"
_CHARACTERS = re.compile(r"\[(?P<not>!?)(?P<set>\]?[^\]]*)\]")

Token = str | re.Pattern[str]  # one character, a class of them, or a star


class Pattern(Struct, frozen=True):
    """One line of an ignore file. ``include`` is whether what matches is left out, False after a ``!``."""

    segments: tuple[str | tuple[Token, ...], ...]  # a name, or its tokens where it has wildcards
    include: bool
    only_below: bool  # matches what lies in a folder of that name, but not a file

    def matches(self, parts: Sequence[str], *, everything_below: bool = False) -> bool:
        """Whether a path matches.

        Args:
            parts: The names that the path is made of.
            everything_below: Whether to ask for every path below it instead.
        """
        if len(self.segments) == 2 and self.segments[0] == _ANY and isinstance(self.segments[1], str):
            return self.segments[1] in (parts if everything_below or not self.only_below else parts[:-1])
        starts = {0}
        for segment in self.segments:
            if segment == _ANY:
                starts = set(range(min(starts), len(parts) + 1))
            else:
                starts = {at + 1 for at in starts if at < len(parts) and _fits(segment, parts[at])}
            if not starts:
                return False
        return everything_below or not self.only_below or min(starts) < len(parts)


def compile_pattern(line: str) -> Pattern | None:
    """The pattern of a line; None for a comment, an empty line, and what git cannot read either."""
    text = line.strip()
    if text.startswith("#") or text in ("", "/", "!"):
        return None
    include = not text.startswith("!")
    given = text.removeprefix("!").split("/")
    names = [name for at, name in enumerate(given) if at == 0 or not name == given[at - 1] == _ANY]
    if names == [_ANY, ""]:
        names = [_ANY, _STAR, ""]  # whatever lies in a folder
    elif names[0] == "":
        del names[0]
        if names == [_ANY, ""]:
            return None  # the client's expression matches nothing
    elif len(names) == 1 or (len(names) == 2 and names[1] == ""):
        names.insert(0, _ANY)
    only_below = names[-1] in ("", _ANY) and len(names) > 1
    if only_below:
        names.pop()
    segments = [_segment(name) for name in names]
    if any(segment is None for segment in segments):
        return None
    return Pattern(tuple(segment for segment in segments if segment is not None), include, only_below)


def _segment(name: str) -> str | tuple[Token, ...] | None:
    """A name with wildcards as tokens; None where it ends in a backslash or has a class that is not valid."""
    if name == _ANY or not any(sign in name for sign in "*?[\\"):
        return name
    tokens: list[Token] = []
    at = 0
    while at < len(name):
        letter, at = name[at], at + 1
        found = _CHARACTERS.match(name, at - 1) if letter == "[" else None
        if letter == "\\":
            if at == len(name):
                return None
            tokens.append(re.compile(re.escape(name[at])))
            at += 1
        elif letter == "?":
            tokens.append(re.compile(r"[^/]"))
        elif found is not None:
            inside = found["set"].replace("\\", "\\\\")
            inside = "\\" + inside if inside.startswith("^") and not found["not"] else inside
            try:
                tokens.append(re.compile(f"[{'^' if found['not'] else ''}{inside}]"))
            except re.error:
                return None
            at = found.end()
        elif letter != _STAR or not tokens or tokens[-1] != _STAR:
            tokens.append(letter)
    return tuple(tokens)


def _fits(segment: str | tuple[Token, ...], name: str) -> bool:
    """Whether a name fits: each star first takes nothing, and the last one takes more where that fails."""
    if isinstance(segment, str):
        return segment == name
    token = at = 0
    star, resumed = -1, 0
    while at < len(name):
        here = segment[token] if token < len(segment) else None
        if here == _STAR:
            star, resumed = token, at
            token += 1
        elif here is not None and (
            here == name[at] if isinstance(here, str) else here.fullmatch(name[at]) is not None
        ):
            token, at = token + 1, at + 1
        elif star >= 0:
            resumed += 1
            token, at = star + 1, resumed
        else:
            return False
    return all(rest == _STAR for rest in segment[token:])
