"""The user's command line of a script: what it gives an option, and what is left without some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from worldsize.adopting.model import Flag, ScriptProfile


def find_given(flag: Flag, arguments: Sequence[str]) -> str | None:
    """The value of an option on a command line; None if it is not there."""
    found = None
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name == flag.option:
            found = value if equals else next(iter(arguments[index + 1 : index + 2]), None)
    return found


def drop_options(arguments: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """A command line without some options and their values."""
    skips = False
    for word in arguments:
        if skips:
            skips = False
            continue
        name, equals, _ = word.partition("=")
        if name in options:
            skips = not equals
            continue
        yield word


def order_words(
    profile: ScriptProfile, given: Sequence[str], ours: Sequence[tuple[Flag, Sequence[str]]]
) -> Iterator[str]:
    """The user's words and ours: the options of a subcommand follow it, the others precede it."""
    inner = [word for flag, words in ours if flag.inner for word in words]
    outer = [word for flag, words in ours if not flag.inner for word in words]
    yield from outer
    if profile.subcommand is not None and profile.subcommand not in given:
        yield profile.subcommand
    yield from given
    yield from inner
