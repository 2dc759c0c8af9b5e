"""Matches all lines of an ignore file at once, in time linear in the file for each character of a path.

An ignore file from elsewhere can have a hundred thousand different lines with stars. To compare each with
each name takes minutes. Here every character of every line is a bit, set where the line has matched so far
(Baeza-Yates and Gonnet's shift-and algorithm, with loops for stars): one step of a few operations on long
integers takes all lines over one character of a name. Later lines have higher bits, because the last line
that matches decides.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from worldsize.base import limits

ANY = "**"
_CHARACTERS = re.compile(r"\[(?:(?P<not>!)|(?!!))(?P<set>\][^\]]*|[^\]]+)\]")


class Pattern(NamedTuple):
    """One line of an ignore file."""

    names: tuple[str, ...]  # A pattern for each name of a path; `**` is any number of names
    include: bool  # whether matching paths are excluded; False after a `!`
    only_below: bool  # whether it matches everything in a folder of that name, but not a file


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


_BITS = 1 << 16  # of one automaton, unless a single line has more: such integers fit a processor's cache
_MASKS = 256  # characters whose masks are cached; names use few characters
_NAMES = 4096  # answers that are cached


class _Bits:
    """An integer under construction, by the places of its bits."""

    def __init__(self) -> None:
        self.places = array("L")

    def mask(self) -> int:
        """The integer."""
        if not self.places:
            return 0
        bits = bytearray((max(self.places) >> 3) + 1)
        for place in self.places:
            bits[place >> 3] |= 1 << (place & 7)
        return int.from_bytes(bits, "little")


class Automaton(Struct, eq=False):
    """Some lines of an ignore file; each name of a line has a bit for its start, then one a character."""

    size: int = 0  # bits so far
    # the number of each line, by the bit at which it ends
    lines: dict[int, int] = field(default_factory=dict)
    _accepted: dict[str, array[int]] = field(default_factory=dict)  # bits that a character leads to
    _ranges: dict[tuple[str, str], array[int]] = field(default_factory=dict)
    _negated: _Bits = field(default_factory=_Bits)  # bits that other characters than these lead to
    _loops: _Bits = field(default_factory=_Bits)  # bits before a star
    _first: _Bits = field(default_factory=_Bits)  # where the lines start
    _anywhere: _Bits = field(default_factory=_Bits)  # where a name starts after `**`
    _inner: _Bits = field(default_factory=_Bits)  # where a name ends and another follows
    _ends: _Bits = field(default_factory=_Bits)  # where a line ends
    _file_ends: _Bits = field(default_factory=_Bits)  # the same of lines that match a file
    _masks: dict[str, int] = field(default_factory=dict)
    _built: tuple[int, ...] = ()
    _folder: tuple[str, ...] = ()  # the folder of the last question
    _entered: tuple[int, int] = (0, 0)

    def add(self, pattern: Pattern, line: int) -> None:
        """Add a line, which must come after the lines that were added before."""
        try:
            names = [name if name == ANY else list(split_tokens(name)) for name in pattern.names]
        except ValueError:
            return  # the client cannot parse it either
        anywhere = False
        start = self.size
        for name in names:
            if isinstance(name, str):
                anywhere = True
                continue
            (self._first if self.size == start else self._inner).places.append(
                self.size if self.size == start else self.size - 1
            )
            if anywhere:
                self._anywhere.places.append(self.size)
            self._add_name(name)
            anywhere = False
        self.lines[self.size - 1] = line
        self._ends.places.append(self.size - 1)
        if not pattern.only_below:
            self._file_ends.places.append(self.size - 1)

    def _add_name(self, name: list[str | Characters]) -> None:
        at = self.size
        loops, accepted = self._loops.places, self._accepted
        if all(token is STAR for token in name):
            name = [Characters(negated=True), STAR]  # a name has at least one character
        for token in name:
            if token is STAR:
                loops.append(at)
                continue
            at += 1
            if isinstance(token, str):
                places = accepted.get(token)
                if places is None:
                    places = accepted[token] = array("L")
                places.append(at)
                continue
            for letter in token.members:
                accepted.setdefault(letter, array("L")).append(at)
            for ends in token.ranges:
                self._ranges.setdefault(ends, array("L")).append(at)
            if token.negated:
                self._negated.places.append(at)
        self.size = at + 1

    def build(self) -> None:
        """Build the integers after all lines were added."""
        every = (self._ends, self._file_ends, self._first, self._anywhere, self._inner, self._loops)
        self._built = (*(each.mask() for each in every), self._negated.mask())
        self._entered = (self._built[2], 0)

    def last_match(self, parts: tuple[str, ...], *, below: bool) -> int:
        """The number of the last line that matches a path, or all paths below it; -1 for none."""
        if not parts:
            return -1
        ends, file_ends = self._built[:2]
        starts, matched = self._enter(parts[:-1])
        reached = self._take(starts, parts[-1])
        matched |= reached & (ends if below else file_ends)
        return self.lines[matched.bit_length() - 1] if matched else -1

    def _enter(self, folder: tuple[str, ...]) -> tuple[int, int]:
        """The start bits of lines in a folder, and the lines that already matched; cached for its files."""
        if folder != self._folder:
            ends, _, first, anywhere, inner, _, _ = self._built
            starts, matched = first, 0
            for part in folder:
                reached = self._take(starts, part)
                matched |= reached & ends
                starts = ((reached & inner) << 1) | (starts & anywhere)
            self._folder, self._entered = folder, (starts, matched)
        return self._entered

    def _take(self, reached: int, name: str) -> int:
        """The bits that a name leads to from these."""
        masks, loops = self._masks, self._built[5]
        limits.check_time()
        for letter in name:
            mask = masks.get(letter)
            if mask is None:
                mask = self._mask(letter)
            reached = ((reached << 1) & mask) | (reached & loops)
            if not reached:
                break
        return reached

    def _mask(self, letter: str) -> int:
        """The bits that a character leads to."""
        if len(self._masks) >= _MASKS:
            self._masks.clear()
        limits.check_time()
        bits = _Bits()
        bits.places.extend(self._accepted.get(letter, ()))
        for (low, high), places in self._ranges.items():
            if low <= letter <= high:
                bits.places.extend(places)
        mask = self._masks[letter] = bits.mask() ^ self._built[-1]
        return mask


class Lines(Struct, eq=False):
    """The lines of an ignore file."""

    patterns: list[Pattern]  # those that can match
    last_negated: int = -1  # the number of the last that starts with `!`
    # by a name, the last line that matches a file, and a folder, of that name anywhere
    literals: dict[str, tuple[int, int]] = field(default_factory=dict)
    automata: list[Automaton] = field(default_factory=list)  # all other lines, the later ones first
    _known: dict[tuple[tuple[str, ...], bool], int] = field(default_factory=dict)

    def exclude(self, parts: Sequence[str]) -> bool:
        """Whether a path is excluded: the last line that matches it decides."""
        last = self.last_match(tuple(parts), below=False)
        return last >= 0 and self.patterns[last].include

    def exclude_below(self, parts: Sequence[str]) -> bool:
        """Whether every path below a folder is excluded, as far as this is known without listing it."""
        return self.last_match(tuple(parts), below=True) > self.last_negated

    def last_match(self, parts: tuple[str, ...], *, below: bool) -> int:
        """The number of the last line that matches a path, or all paths below it; -1 for none."""
        question = (parts, below)
        line = self._known.get(question)
        if line is None:
            if len(self._known) >= _NAMES:
                self._known.clear()
            line = self._known[question] = self._last_match(parts, below=below)
        return line

    def _last_match(self, parts: tuple[str, ...], *, below: bool) -> int:
        last_match = -1
        for index, part in enumerate(parts):
            literal_matches = self.literals.get(part)
            if literal_matches is not None:
                last_match = max(last_match, literal_matches[below or index < len(parts) - 1])
        for automaton in self.automata:
            last = automaton.last_match(parts, below=below)
            if last >= 0:
                return max(last_match, last)
        return last_match


def compile_lines(patterns: list[Pattern]) -> Lines:
    """The lines of an ignore file, from first to last."""
    lines = Lines(patterns)
    automata = [Automaton()]
    for number, pattern in enumerate(patterns):
        if not pattern.include:
            lines.last_negated = number
        if len(pattern.names) == 2 and pattern.names[0] == ANY and is_literal(pattern.names[1]):
            known = lines.literals.get(pattern.names[1], (-1, -1))
            lines.literals[pattern.names[1]] = (known[0] if pattern.only_below else number, number)
            continue
        if automata[-1].size >= _BITS:
            automata.append(Automaton())
            limits.check_time()
        automata[-1].add(pattern, number)
    for automaton in automata:
        automaton.build()
    lines.automata = [automaton for automaton in reversed(automata) if automaton.lines]
    return lines
