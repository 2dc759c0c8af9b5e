"""A shell command taken apart far enough to see what it starts and which flags it gives.

No shell is imitated: quotes, ``${{…}}`` and ``$[[ ]]`` are kept together, and anything unusual only makes
a flag invisible. Offsets are those in the command, so that a caret can stand under one word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from msgspec import Struct

from worldsize.base.patterns import compile_later
from worldsize.base.source import Source

# A word is put together from its pieces: as one repeated group it would cost hundreds of bytes a character.
_PIECE = re.compile(r"\$\{\{[^{}\n]*\}\}|\$\([^()]*\)|`[^`]*`|\"[^\"]*\"|'[^']*'|\\.|[^\s;|&<>\"'\\$`]+|[$`]")
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
    """The commands of a command line, in order; in place of `sh -c "…"` the commands in its text."""
    return tuple(inner for command in _split(text) for inner in _unwrap(command))


def _unwrap(command: Command) -> Iterator[Command]:
    words = command.arguments
    script = words[2] if len(words) == 3 and words[1].text in _RUNS_TEXT else None
    if script is None or words[0].text.rpartition("/")[2] not in _SHELLS or script.bare == script.text:
        yield command
        return
    for inner in _split(script.bare):
        moved = [
            Word(word.text, word.start + script.start + 1, word.end + script.start + 1)
            for word in inner.words
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


_SHELL_WORDS = frozenset({"sh", "bash", "dash", "zsh", "source", "."})
_OPTIONS = compile_later(r"[-+][a-z]+|--login|--norc")
_SETS_OPTION = compile_later(r"[-+][a-z]*o")
# What makes a script more than a list of commands.
_CONTROL = frozenset(
    {
        "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
        "function", "eval", "shift", "trap", "getopts", "alias", "return", "exit", "cd", "pushd",
        "{", "}", "(", ")", "[", "[[",
    }
)  # fmt: skip
_MOVES = frozenset({"cd", "pushd"})
_NOT_PLAIN = compile_later(r"<<|\(\)|;;|\bset\s+--|\|\||\$\(|`")
_COMMENT = compile_later(r"(?:^|(?<=\s))#[^\n]*")
_PARAMETER = compile_later(r"\"?\$(?:\{(\w+)\}|(\w+)|([@*]))\"?")
_LONGEST = 100_000
_DEPTH = 3  # scripts that start scripts


def read_scripts(
    commands: tuple[Command, ...], read: Callable[[str], Source | None], depth: int = _DEPTH
) -> tuple[Command, ...]:
    """The commands, each that starts a plain script followed by those of the script.

    Args:
        commands: Of a command line.
        read: The text of a script by its path, from the folder in which the commands start.
        depth: How many scripts may start each other.
    """
    followed: list[Command] = []
    folder: PurePosixPath | None = PurePosixPath()
    for command in commands:
        followed.append(command)
        words = command.arguments
        if words and words[0].bare in _MOVES:
            plain = len(words) == 2 and "$" not in words[1].text and folder is not None
            folder = folder / words[1].bare if plain and folder is not None else None
        started = _find_script(words) if folder is not None and depth else None
        if started is None or folder is None:
            continue
        word, arguments = started
        source = read(str(folder / word.bare))
        if source is not None and _is_plain(source):
            inner = tuple(_read_script(source, arguments))
            followed += read_scripts(inner, read, depth - 1)
    return tuple(followed)


def _find_script(words: tuple[Word, ...]) -> tuple[Word, tuple[Word, ...]] | None:
    """The word that names the script, and its arguments."""
    if not words or "$" in words[0].text:
        return None
    position = 0
    if words[0].bare.rpartition("/")[2] in _SHELL_WORDS:
        position = 1
        while position < len(words) and _OPTIONS.fullmatch(words[position].text):
            if "c" in words[position].text or _SETS_OPTION.fullmatch(words[position].text):
                position += 1  # `-o pipefail`
            position += 1
    named = position < len(words) and words[position].bare.endswith(".sh")
    if not named or "$" in words[position].text:
        return None
    return words[position], words[position + 1 :]


def _is_plain(source: Source) -> bool:
    text = _COMMENT.sub("", source.text)
    if len(text) > _LONGEST or _NOT_PLAIN.search(text):
        return False
    return _are_plain(parse_commands(text))


def _are_plain(commands: tuple[Command, ...], allowed: frozenset[str] = frozenset()) -> bool:
    control = _CONTROL - allowed
    return not any(command.words and command.words[0].text in control for command in commands)


def _read_script(source: Source, arguments: tuple[Word, ...]) -> Iterator[Command]:
    """Its commands, with its arguments in place of `"$@"`, `$1` and the variables that hold them."""
    text = _COMMENT.sub(lambda match: " " * len(match[0]), source.text)
    values: dict[str, tuple[Word, ...]] = {str(number): (word,) for number, word in enumerate(arguments, 1)}
    values |= {"@": arguments, "*": arguments}
    yield from _fill_in_all(parse_commands(text), values, source)


def fill_in_variables(text: str) -> tuple[Command, ...]:
    """The commands of a command line, with what it sets itself in place of ``$VARIABLE``."""
    commands = parse_commands(text)
    if "$" not in text or "=" not in text or _NOT_PLAIN.search(text) or not _are_plain(commands, _MOVES):
        return commands
    return tuple(_fill_in_all(commands, {}, None))


def _fill_in_all(
    commands: tuple[Command, ...], values: dict[str, tuple[Word, ...]], source: Source | None
) -> Iterator[Command]:
    for command in commands:
        words = [Word(word.text, word.start, word.end, source) for word in command.words]
        replaced = tuple(filled for word in words for filled in _fill_in(word, values))
        sets = all("=" in word.text for word in command.words) or command.words[0].text == "export"
        for name, _, word in command.assignments if sets else ():
            assigned = Word(word.text[len(name) + 1 :], word.start + len(name) + 1, word.end, source)
            values[name] = () if name in values else _fill_in(assigned, values)
        yield Command(replaced, command.targets, command.piped)


def _fill_in(word: Word, values: dict[str, tuple[Word, ...]]) -> tuple[Word, ...]:
    flag, equals, text = word.text.partition("=")
    is_flag = bool(equals) and flag.startswith("--")
    match = _PARAMETER.fullmatch(text if is_flag else word.text)
    substitutes = values.get(match[1] or match[2] or match[3]) if match is not None else None
    if substitutes is None or match is None or (not substitutes and not match[3]):
        return (word,)
    splits = match[3] is None and match[0][0] == "$" and any(" " in part.text for part in substitutes)
    if splits or (is_flag and (len(substitutes) != 1 or substitutes[0].bare.startswith("-"))):
        return (word,)
    return (word._replace(text=flag, end=word.start + len(flag)), *substitutes) if is_flag else substitutes
