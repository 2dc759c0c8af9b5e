"""The user's command line of a script: what it gives each option, and how it is written with ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from worldsize.adopting.model import Flag, ScriptProfile

_NUMBER = re.compile(r"-\d+|-\d*\.\d+(?:e-?\d+)?")


class Given(Struct, frozen=True):
    """The words of one option, or of none that is known. ``value`` is the last that follows its name."""

    flag: Flag | None
    words: tuple[str, ...]
    value: str | None
    inner: bool  # behind the subcommand
    is_named: bool = True  # whether it begins with the name of an option

    def write(self) -> tuple[str, ...]:
        """The words as they do not depend on their place: with the name of their option, if it has one."""
        add_name = not self.is_named and self.flag is not None and not self.flag.is_positional
        return (self.flag.option, *self.words) if add_name and self.flag is not None else self.words


def read_arguments(
    flags: Sequence[Flag], arguments: Sequence[str], subcommand: str | None = None
) -> list[Given]:
    """What a command line gives, in its order; the subcommand itself is left out."""
    named = {word: flag for flag in flags for word in flag.spellings}
    words, read, inner = list(arguments), list[Given](), False
    left_out = subcommand is not None and subcommand not in arguments
    ended = False  # behind `--`, where no word is a name
    while words:
        word = words.pop(0)
        if word == "--" and not ended:
            ended = True
        elif _is_name(word) and not ended:
            read.append(_take_named(named, word, words, inner=inner or left_out))
        elif word == subcommand and not inner:
            inner = True
        else:
            flag = next((option for option in flags if _takes_word(option, read)), None)
            read.append(Given(flag, (word,), word, flag.inner if flag is not None else inner, is_named=False))
    return read


def _is_name(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and _NUMBER.fullmatch(word) is None


def _takes_word(flag: Flag, read: Sequence[Given]) -> bool:
    """Whether the next word without a name is for this one."""
    if not _can_be_unnamed(flag):
        return False
    return flag.words is None or all(argument.flag is not flag for argument in read)


def _can_be_unnamed(flag: Flag) -> bool:
    return flag.is_positional or flag.by_position


def _take_named(named: dict[str, Flag], word: str, words: list[str], *, inner: bool) -> Given:
    name, equals, value = word.partition("=")
    flag = named.get(name) or _find_abbreviated(named, name)
    if flag is None and word[:2] in named and not word.startswith("--"):  # `-b64`
        flag, equals, value = named[word[:2]], "=", word[2:]
    taken: list[str] = []
    most = flag.words if flag is not None else None
    while not equals and words and not _is_name(words[0]) and (most is None or len(taken) < most):
        taken.append(words.pop(0))
    last = value if equals else next(reversed(taken), None)
    return Given(flag, (word, *taken), last, flag.inner if flag is not None else inner)


def _find_abbreviated(named: dict[str, Flag], name: str) -> Flag | None:
    """The option that argparse takes ``--batch`` for."""
    flags = {id(flag): flag for word, flag in named.items() if word.startswith(name) and name[:2] == "--"}
    return next(iter(flags.values())) if len(flags) == 1 else None


def find_given(
    flag: Flag | None, flags: Sequence[Flag], arguments: Sequence[str], subcommand: str | None = None
) -> str | None:
    """The value of an option on a command line; None if it is not there."""
    values = [
        argument.value
        for argument in read_arguments(flags, arguments, subcommand)
        if argument.flag is not None and argument.flag is flag
    ]
    return next(reversed(values), None)


def add_data(profile: ScriptProfile, arguments: Sequence[str], data: Path) -> tuple[str, ...]:
    """The command line with the data in the place where the script takes it without a name, if it does.

    Words without a name are for the other arguments, unless there are more of them.
    """
    flag = profile.flag("data")
    if flag is None or not _can_be_unnamed(flag):
        return tuple(arguments)
    order = [option for option in profile.flags if _can_be_unnamed(option)]
    read = read_arguments(profile.flags, arguments, profile.subcommand)
    free = [argument for argument in read if not argument.is_named]
    if len(free) >= len(order):
        return tuple(arguments)
    at = order.index(flag)
    words = [
        *(argument.words[0] for argument in free[:at]),
        str(data),
        *(argument.words[0] for argument in free[at:]),
    ]
    command = [word for word in arguments if word == profile.subcommand][:1]
    return (*command, *words, *(word for argument in read if argument.is_named for word in argument.words))


def write_arguments(
    profile: ScriptProfile, arguments: Sequence[str], ours: Sequence[tuple[Flag, str]]
) -> Iterator[str]:
    """The user's command line with our values in place of what it gives the same options.

    Words without a name come first, in the order in which the script declares them. The options of a
    subcommand follow it, the others precede it.
    """
    read = read_arguments(profile.flags, arguments, profile.subcommand)
    replaced = [flag for flag, _ in ours]
    for inner in (False, True):
        if inner and profile.subcommand is not None:
            yield profile.subcommand
        yield from _list_positional(profile, read, ours, inner=inner)
        for flag, value in ours:
            if flag.inner is inner and not flag.is_positional:
                yield from (flag.option, value)
        for argument in read:
            is_placed = argument.flag is not None and (
                argument.flag.is_positional or argument.flag in replaced
            )
            if argument.inner is inner and not is_placed:
                yield from argument.write()


def _list_positional(
    profile: ScriptProfile, read: Sequence[Given], ours: Sequence[tuple[Flag, str]], *, inner: bool
) -> Iterator[str]:
    """The words without a name. One that is not given is its default, so the next does not replace it."""
    words = {
        flag: [value for other, value in ours if other is flag]
        or [word for argument in read if argument.flag is flag for word in argument.words]
        for flag in profile.flags
        if flag.is_positional and flag.inner is inner
    }
    last = max((index for index, values in enumerate(words.values()) if values), default=-1)
    for flag in list(words)[: last + 1]:
        yield from words[flag] or ([str(flag.default)] if flag.default is not None else [])
