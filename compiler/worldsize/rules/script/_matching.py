"""What a command gives to a script, against the interface that the script declares."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.words import Argument


class Fault(Struct):
    """A contradiction: ``what`` is `unknown`, `missing`, `command` or `value`.

    The ``names`` are those that are missing, or, of an unknown word, the options that the command gives.
    """

    what: str
    argument: Argument | None
    option: Option | None = None
    message: str = ""
    names: tuple[str, ...] = ()
    valued: bool = False  # whether a value follows an unknown flag


def match_arguments(interface: Interface, arguments: list[Argument]) -> list[Fault]:
    """Where the arguments contradict the interface, as `argparse` would say it."""
    if interface.reads_files and any(
        argument.written.endswith((".json", ".yaml", ".yml")) for argument in arguments
    ):
        return []
    if interface.kind == "fire" and any(argument.written == "-" for argument in arguments):
        return []  # what follows belongs to what the function returns
    match = _Match(interface, arguments)
    return match.take_all()


class _Match:
    """The words of a command are taken one after the other, as `argparse` does."""

    def __init__(self, interface: Interface, arguments: list[Argument]) -> None:
        self.interface = interface
        self.by_flag = {flag: option for option in interface.options for flag in option.flags}
        self.flags = sorted(self.by_flag)
        self.arguments = arguments
        self.position = 0
        self.given: set[Option] = set()
        self.free: list[Argument] = []  # words that belong to no flag
        self.faults: list[Fault] = []
        self.sure = True  # whether the number of words is known
        self.bare_flag: Argument | None = None  # the word before is a flag that takes no value
        self.strict = interface.closed and not interface.ignores_others
        self.swallowed = False  # the values of an unknown flag may have been for others
        self.passed_on = False  # a command of the script has taken the rest

    def take_all(self) -> list[Fault]:
        """Take every word; what contradicts the interface."""
        while self.position < len(self.arguments):
            self.take()
        given = tuple(option.label for option in self.interface.options if option in self.given)
        for fault in self.faults:
            if fault.what == "unknown" and not fault.names:
                fault.names = given
        return [*self.faults, *(() if self.passed_on else self.finish())]

    def take(self) -> None:
        """Take the next word, and the values that follow a flag."""
        argument, before = self.arguments[self.position], self.bare_flag
        self.position += 1
        self.bare_flag = None
        interface = self.interface
        if argument.loose:
            self.sure = False
        elif argument.written == "--":
            self.free += self._rest()
        elif argument.is_flag:
            self._take_flag(argument)
        elif interface.commands is not None and len(self.free) == len(interface.positionals):
            self.faults += self._match_command(argument)
            self.free.append(argument)
            self.sure = self.sure and bool(interface.commands)
        elif before is not None and self.strict and not interface.positionals:
            message = (
                f"`{before.written}` takes no value, but `{argument.text or argument.written}` follows it"
            )
            at_word = argument._replace(span=argument.place)
            self.faults.append(Fault("value", at_word, self.by_flag.get(before.written), message))
        else:
            self.free.append(argument)

    def _rest(self) -> list[Argument]:
        rest, self.position = self.arguments[self.position :], len(self.arguments)
        return rest

    def _take_flag(self, argument: Argument) -> None:
        name, equals, text = argument.written.partition("=")
        option = self.by_flag.get(name)
        fits = self._list_long(name) if option is None and "$" not in name else []
        if len({id(self.by_flag[flag]) for flag in fits}) == 1:
            option = self.by_flag[fits[0]]
        if option is None:
            self._take_unknown(argument, name, fits)
            return
        self.given.add(option)
        if equals:
            text = text.strip("\"'")
            values = [argument._replace(written=text, text=None if argument.text is None else text)]
        else:
            values = self._take_values(option)
            self.bare_flag = argument if option.most == 0 else None
        self.faults += _judge_values(option, argument, values, explicit=bool(equals))

    def _take_unknown(self, argument: Argument, name: str, fits: list[str]) -> None:
        """A flag that is not declared as it is written."""
        may_be = not fits and ("$" in name or self._may_know(name))
        if may_be:
            self.sure = False
            return
        if self.strict and fits:
            listed = " and ".join(f"`{flag}`" for flag in fits[:4])
            message = f"`{name}` may stand for {listed}"
            self.faults.append(Fault("value", argument, self.by_flag[fits[0]], message))
        elif self.strict:
            following = self.arguments[self.position : self.position + 1]
            valued = "=" in argument.written or any(not each.is_flag for each in following)
            self.faults.append(Fault("unknown", argument, valued=valued))
        while self.position < len(self.arguments) and not self.arguments[self.position].is_flag:
            self.position += 1  # its values
            self.swallowed = True

    def _may_know(self, flag: str) -> bool:
        """Whether the flag may be several in one word, or one that a launcher spells in another way."""
        if self.interface.kind == "fire" and (self.interface.commands is not None or flag[:2] != "--"):
            return True  # the flags of a command may stand before it
        joined = not flag.startswith("--") and flag[:2] in self.by_flag
        return joined or flag.replace("_", "-") == "--local-rank" in self.by_flag

    def _list_long(self, flag: str) -> list[str]:
        """The flags that an abbreviation may stand for."""
        start = bisect_left(self.flags, flag) if self.interface.abbreviates else len(self.flags)
        end = start
        while end < len(self.flags) and self.flags[end].startswith(flag):
            end += 1
        return self.flags[start:end]

    def _match_command(self, word: Argument) -> list[Fault]:
        """The word that chooses a command of the script, and what follows it."""
        commands, rest = self.interface.commands or {}, self._rest()
        chosen = commands.get(word.text or "")
        if chosen is None and self.interface.kind == "fire":
            chosen = commands.get((word.text or "").replace("-", "_"))
        if chosen is not None:
            if self.interface.kind != "fire":
                return match_arguments(chosen, rest)
            self.passed_on = True  # fire gives the flags of a class and of its method in any order
            both = replace(chosen, options=[*chosen.options, *self.interface.options])
            match = _Match(both, rest)
            match.given |= self.given
            return match.take_all()
        if not (commands and self.sure and self.interface.closed) or word.text is None:
            return []
        names = (
            list(commands)
            if self.interface.kind != "fire"
            else [name for name, each in commands.items() if each.closed and not name.startswith("_")]
        )
        listed = ", ".join(f"`{name}`" for name in names[:8])
        return [Fault("value", word, None, f"`{word.text}` is not a command of the script: it has {listed}")]

    def _take_values(self, option: Option) -> list[Argument]:
        values: list[Argument] = []
        while self.position < len(self.arguments) and (option.most is None or len(values) < option.most):
            argument = self.arguments[self.position]
            if argument.is_flag or argument.written == "--":
                break
            values.append(argument)
            self.position += 1
        return values

    def finish(self) -> Iterator[Fault]:
        """What is wrong with the words without a flag, and what is missing."""
        interface, free = self.interface, self.free
        if interface.by_position:
            yield from self._finish_by_position()
            return
        yield from self._judge_groups()
        counts = [option.most for option in interface.positionals]
        if self.sure and self.strict and None not in counts and interface.commands is None:
            for argument in free[sum(filter(None, counts)) :][:1]:
                yield Fault("unknown", argument)
        for option, argument in zip(interface.positionals, free, strict=False):
            if not self.sure or option.least != 1 or option.most != 1 or option.optional_words:
                break
            yield from _judge_value(option, argument)
        if not self.sure:
            return
        words = [] if self.swallowed else interface.positionals
        if interface.needs_command and interface.commands and not self.swallowed and len(free) <= len(words):
            yield Fault("command", None, None, "", tuple(interface.commands))
        missing = [
            option.label for option in interface.options if option.required and option not in self.given
        ]
        left = len(free)
        for option in words:
            least = 0 if option.optional_words else option.least
            missing += [option.name] if left < least else []
            left = max(0, left - least)
        if missing:
            yield Fault("missing", None, None, "", tuple(missing))

    def _finish_by_position(self) -> Iterator[Fault]:
        left = [option for option in self.interface.options if option not in self.given]
        missing = [option.label for option in left[len(self.free) :] if option.required]
        if missing and self.sure:
            yield Fault("missing", None, None, "", tuple(missing))

    def _judge_groups(self) -> Iterator[Fault]:
        """Options of which only one may be given, or one must be."""
        for required, options in self.interface.exclusive:
            given = [option for option in options if option in self.given]
            if len(given) > 1:
                labels = f"`{given[0].label}` and `{given[1].label}`"
                at = next(each for each in self.arguments if each.written.partition("=")[0] in given[1].flags)
                yield Fault("value", at, given[1], f"{labels} exclude each other")
            elif required and not given and self.sure and self.interface.closed:
                yield Fault("missing", None, None, "", (" or ".join(option.label for option in options),))


def _judge_values(
    option: Option, flag: Argument, values: list[Argument], *, explicit: bool
) -> Iterator[Fault]:
    if option.most == 0 and explicit:
        message = f"`{option.label}` takes no value, but the command gives `{values[0].written}`"
        yield Fault("value", values[0], option, message)
        return
    if len(values) < option.least and not any(value.loose for value in values):
        words = "a value" if option.least == 1 else f"{option.least} values"
        yield Fault(
            "value",
            flag,
            option,
            f"`{flag.written}` needs {words}, but the command gives {len(values) or 'none'}",
        )
        return
    for value in values if option.most != 0 else ():
        for each in value.choices or (value,):
            yield from _judge_value(option, each)


def _judge_value(option: Option, value: Argument) -> Iterator[Fault]:
    shown = value.text if value.text is not None else value.written
    given: object = value.text
    if option.kind is not None:
        given = _convert(option.kind, value.text)
        if (value.text is not None and given is None) or not value.numeric:
            noun = "a whole number" if option.kind is int else "a number"
            yield Fault("value", value, option, f"`{option.label}` takes {noun}, but it is given `{shown}`")
            return
        least, most = option.bounds
        if isinstance(given, int | float) and not (
            (least is None or given >= least) and (most is None or given <= most)
        ):
            words = (
                f"at least {least}"
                if most is None
                else f"at most {most}"
                if least is None
                else f"{least} to {most}"
            )
            yield Fault("value", value, option, f"`{option.label}` takes {words}, but it is given {shown}")
            return
    if option.choices is None or value.text is None or given in option.choices:
        return
    if value.text in map(str, option.choices):
        message = f"`{option.label}` compares the text `{shown}` with choices that are no text"
    else:
        listed = ", ".join(f"`{choice}`" for choice in option.choices[:8])
        more = ", …" if len(option.choices) > 8 else ""
        message = f"`{option.label}` is one of {listed}{more}, not `{shown}`"
    yield Fault("value", value, option, message)


def _convert(kind: type[int | float], text: str | None) -> float | int | None:
    try:
        return None if text is None else kind(text)
    except (ValueError, OverflowError):
        return None
