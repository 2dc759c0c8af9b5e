"""A shell command taken apart far enough to see what it starts and which flags it gives.

No shell is imitated: quotes, ``${{…}}`` and ``$[[ ]]`` are kept together, and anything unusual only makes
a flag invisible. Offsets are those in the command, so that a caret can stand under one word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from worldsize.base.source import Source

# A word is put together from its pieces: as one repeated group it would cost hundreds of bytes a character.
_PIECE = re.compile(r"\$\{\{[^{}\n]*\}\}|\"[^\"]*\"|'[^']*'|\\.|[^\s;|&<>\"'\\$]+|\$")
_TOKEN = re.compile(
    r"(?P<redirect>\d?>&\d|&?>>?|\d>>?|<+)|(?P<join>\\\n)|(?P<operator>&&|\|\||[;|&]|\n\s*)"
    rf"|(?P<word>{_PIECE.pattern})"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELLS = ("sh", "bash", "dash", "zsh")
_RUNS_TEXT = ("-c", "-lc", "-ec", "-ic", "-xc", "-euc", "-exc", "-euxc")
_WRAPPERS = frozenset(
    {"exec", "time", "nohup", "sudo", "env", "command", "if", "then", "do", "else", "!", "("}
)

# Programs that start no other, and use no GPU.
HARMLESS = frozenset(
    {"echo", "ls", "cd", "pip", "mkdir", "export", "set", "pwd", "cat", "env", "date", "free", "df"}
    | {"nproc", "chmod", "true", "sleep", "cp", "mv"}
)


class Word(NamedTuple):
    """One word as written, quotes included."""

    text: str
    start: int
    end: int
    source: Source | None = None  # the shell script in which it stands, if not in the command itself

    @property
    def bare(self) -> str:
        """The word without the quotes around it."""
        quoted = len(self.text) > 1 and self.text[0] in "\"'" and self.text[-1] == self.text[0]
        return self.text[1:-1] if quoted else self.text


class Flag(NamedTuple):
    """``--name value`` or ``--name=value``; ``name`` in lower case with ``_`` for ``-``."""

    name: str
    word: Word
    value: Word | None


class Command(Struct, frozen=True):
    """One program with its arguments, up to the next ``&&``, ``;``, ``|`` or line."""

    words: tuple[Word, ...]
    targets: tuple[tuple[Word, Word | None], ...]  # redirections: the operator and the file
    piped: bool = False  # reads what the command before it writes

    @property
    def program(self) -> Word | None:
        """The first word that is neither a variable assignment nor a wrapper."""
        return next(iter(self.arguments), None)

    @property
    def arguments(self) -> tuple[Word, ...]:
        """The program and what follows it."""
        for position, word in enumerate(self.words):
            if word.text not in _WRAPPERS and not _ASSIGNMENT.match(word.text):
                return self.words[position:]
        return ()

    @property
    def assignments(self) -> Iterator[tuple[str, str, Word]]:
        """Variables that are set for this command, or exported by it."""
        exports = bool(self.words) and self.words[0].text == "export"
        for word in self.words[1:] if exports else self.words:
            if not _ASSIGNMENT.match(word.text):
                return
            name, _, value = word.text.partition("=")
            yield name, value.strip("\"'"), word

    def flags(self) -> Iterator[Flag]:
        """The long flags."""
        words = self.arguments
        for position, word in enumerate(words):
            if not word.text.startswith("--") or len(word.text) < 3:
                continue
            name, equals, text = word.text.partition("=")
            after = words[position + 1] if position + 1 < len(words) else None
            value = None
            if equals:
                value = Word(text, word.start + len(name) + 1, word.end, word.source)
            elif after is not None and not after.text.startswith("--"):
                value = after
            yield Flag(name[2:].lower().replace("-", "_"), word, value)


@lru_cache(maxsize=16)  # several rules ask for the same command in a row
def parse_commands(text: str) -> tuple[Command, ...]:
    """The commands of a command line, in order; in place of `sh -c "…"` those that the shell is given."""
    return tuple(inner for command in _split(text) for inner in _unwrap(command))


def _unwrap(command: Command) -> Iterator[Command]:
    words = command.arguments
    given = words[2] if len(words) == 3 and words[1].text in _RUNS_TEXT else None
    if given is None or words[0].text.rpartition("/")[2] not in _SHELLS or given.bare == given.text:
        yield command
        return
    for inner in _split(given.bare):
        moved = [
            Word(word.text, word.start + given.start + 1, word.end + given.start + 1) for word in inner.words
        ]
        yield Command(tuple(moved), inner.targets, inner.piped)


def _split(text: str) -> tuple[Command, ...]:
    commands: list[Command] = []
    words: list[Word] = []
    targets: list[tuple[Word, Word | None]] = []
    redirect: Word | None = None
    piped = False
    for kind, word in _tokens(text):
        if kind == "word":
            trimmed = _outside_brackets(word) if word.text[0] == "$" or word.text[-1] == "]" else word
            if redirect is not None:
                targets += [(redirect, trimmed)] if ">" in redirect.text else []
            elif trimmed.text:
                words.append(trimmed)
            redirect = None
        elif kind == "redirect":
            redirect = word if "&" not in word.text[1:] else None
        elif kind == "operator":
            if words or targets:
                commands.append(Command(tuple(words), tuple(targets), piped))
            words, targets, redirect, piped = [], [], None, word.text == "|"
    if words or targets:
        commands.append(Command(tuple(words), tuple(targets), piped))
    return tuple(commands)


def _tokens(text: str) -> Iterator[tuple[str, Word]]:
    """Words, redirections and operators, each with its kind."""
    search, match_piece = _TOKEN.search, _PIECE.match
    match = search(text)
    while match is not None:
        kind = match.lastgroup or ""
        start, end = match.span()
        while kind == "word" and text[end : end + 1] != " " and (piece := match_piece(text, end)) is not None:
            end = piece.end()
        yield kind, Word(text[start:end], start, end)
        match = search(text, end)


def _outside_brackets(word: Word) -> Word:
    """The word without the ``$[[`` or ``]]`` of an optional section that it touches."""
    text, start, end = word.text, word.start, word.end
    if text[:3] == "$[[":
        text, start = text[3:], start + 3
    if text[-2:] == "]]":
        text, end = text[:-2], end - 2
    return word if text is word.text else Word(text, start, end)
