"""The commands of a shell script that a command starts, in place of that command's own words.

Only plain scripts are read: one command after the other. A script that decides, loops or defines functions
says nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from worldsize.azureml.command_line import Command, Word, parse_commands
from worldsize.base.patterns import compile_later
from worldsize.base.source import Source

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "source", "."})
_OPTIONS = compile_later(r"[-+][a-z]+|--login|--norc")
_SETS_OPTION = compile_later(r"[-+][a-z]*o")
# What makes a script more than a list of commands.
_CONTROL = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select"}
    | {
        "function",
        "eval",
        "shift",
        "trap",
        "getopts",
        "alias",
        "return",
        "exit",
        "cd",
        "pushd",
        "{",
        "}",
        "(",
        ")",
        "[",
        "[[",
    }
)
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
    found: list[Command] = []
    folder: PurePosixPath | None = PurePosixPath()
    for command in commands:
        found.append(command)
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
            found += read_scripts(inner, read, depth - 1)
    return tuple(found)


def _find_script(words: tuple[Word, ...]) -> tuple[Word, tuple[Word, ...]] | None:
    """The word that names the script, and the words that it is given."""
    if not words or "$" in words[0].text:
        return None
    position = 0
    if words[0].bare.rpartition("/")[2] in _SHELLS:
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
    """Its commands, with what it is given in place of `"$@"`, `$1` and the variables that hold them."""
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
        replaced = tuple(each for word in words for each in _fill_in(word, values))
        sets = all("=" in word.text for word in command.words) or command.words[0].text == "export"
        for name, _, word in command.assignments if sets else ():
            given = Word(word.text[len(name) + 1 :], word.start + len(name) + 1, word.end, source)
            values[name] = () if name in values else _fill_in(given, values)
        yield Command(replaced, command.targets, command.piped)


def _fill_in(word: Word, values: dict[str, tuple[Word, ...]]) -> tuple[Word, ...]:
    flag, equals, text = word.text.partition("=")
    is_flag = bool(equals) and flag.startswith("--")
    match = _PARAMETER.fullmatch(text if is_flag else word.text)
    known = values.get(match[1] or match[2] or match[3]) if match is not None else None
    if known is None or match is None or (not known and not match[3]):
        return (word,)
    splits = match[3] is None and match[0][0] == "$" and any(" " in each.text for each in known)
    if splits or (is_flag and (len(known) != 1 or known[0].bare.startswith("-"))):
        return (word,)
    return (word._replace(text=flag, end=word.start + len(flag)), *known) if is_flag else known
