"""What the command gives to a script and what the script declares contradict each other."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml.binding import parse_template
from worldsize.azureml.launch import Launch
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding, Fix, Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean, find_meant
from worldsize.base.wording import plural
from worldsize.scripts.interface.model import Interface, Option
from worldsize.scripts.interface.read import find_words_read, read_interface, read_reached
from worldsize.scripts.module import Module, constant_value, keyword_argument
from worldsize.scripts.program import Program
from worldsize.scripts.words import Argument, read_arguments

_STEPS = 200  # that start the same script, whose inputs are looked at


def check_program(context: Tree, program: Program) -> Iterator[Problem]:
    interface = read_interface(program)
    if interface is None:
        yield from _check_words(program)
        return
    if interface.reads_files and context.exists(program.path.with_suffix(".args")):
        return  # HfArgumentParser adds what stands in it
    yield from _check_launcher(context, program, interface)
    said: set[tuple[str, Span]] = set()
    for launch in program.launches[:_STEPS]:
        faults = match_arguments(interface, read_arguments(program, launch))
        for fault in faults:
            if fault.argument is not None and _opens_section(launch, fault.argument.written):
                continue  # an optional input in such brackets is reported as one
            problem = _report(program, launch, interface, fault, faults)
            if problem is not None and (problem.message, problem.span) not in said:
                said.add((problem.message, problem.span))
                # what fire does with a word that it cannot use depends on what the function returns
                certain = interface.certain and interface.kind != "fire"
                yield problem if certain else replace(problem, confidence="likely")


def _check_launcher(context: Tree, program: Program, interface: Interface) -> Iterator[Problem]:
    """`torch.distributed.launch`, which from torch 2 on gives `--local-rank`, and before `--local_rank`."""
    words = [word.bare for word in program.command.arguments]
    component, span = program.launch.step.component, program.launch.span(program.command.arguments[0])
    if "torch.distributed.launch" not in words or {"--use_env", "--use-env"} & {*words} or component is None:
        return
    flags = {flag for option in interface.options for flag in option.flags}
    if not interface.closed or interface.ignores_others or "--local-rank" in flags or span is None:
        return
    for framework in context.list_frameworks(component) if "--local_rank" in flags else ():
        if framework.package == "torch" and not framework.version.startswith(("0.", "1.")):
            message = (
                f"`torch.distributed.launch` of torch {framework.version} gives `{program.path.name}`"
                " the argument `--local-rank`, which it does not declare"
            )
            help_ = 'write `parser.add_argument("--local-rank", "--local_rank", type=int)`'
            yield Problem("argument-unknown", span, message, help_)


def _check_words(program: Program) -> Iterator[Problem]:
    """A script without a parser that reads more words than it is given."""
    read = program.entry.once(_find_words, program)
    span = program.launch.span(program.word)
    arguments = read_arguments(program, program.launch)
    if read is None or span is None or any(argument.loose for argument in arguments):
        return
    count, module, node = read
    if count > len(arguments):
        passed = plural(len(arguments), "word")
        message = f"`{program.path.name}` reads {plural(count, 'word')}, but the command gives it {passed}"
        related = (Related(module.span(node), "the last word is read here"),)
        yield Problem("argument-missing", span, message, "add the words that are missing", related)


def _find_words(entry: Module, program: Program) -> tuple[int, Module, ast.AST] | None:
    if not program.complete or program.imports("argparse", "click", "typer", "fire", "optparse", "getopt"):
        return None
    return find_words_read(read_reached(program))


def _report(
    program: Program, launch: Launch, interface: Interface, fault: Fault, faults: list[Fault]
) -> Problem | None:
    script, span = program.path.name, launch.span(program.word)
    if fault.what == "command" and span is not None:
        listed = " or ".join(f"`{name}`" for name in fault.names[:8])
        message = f"`{script}` needs one of its commands, but the command line names none"
        return Problem("argument-missing", span, message, f"write {listed} after `{script}`")
    if fault.argument is None:
        names_meant = {_find_meant(other, interface, faults) for other in faults if other.what == "unknown"}
        names = [name for name in fault.names if name not in names_meant]
        if not names or span is None:
            return None
        quoted = ", ".join(f"`{name}`" for name in names)
        message = f"`{script}` needs {quoted}, which the command does not give"
        related = next((option.related for option in interface.options if option.label == names[0]), ())
        help_ = f"give {quoted} {'values' if len(names) > 1 else 'a value'} after `{script}`"
        return Problem("argument-missing", span, message, help_, related)
    span = fault.argument.span or span
    if span is None:
        return None
    if fault.what in ("unknown", "glued"):
        at_launcher = span == launch.span(program.command.arguments[0])
        meant = None if at_launcher else _find_meant(fault, interface, faults)
        message, help_ = _describe_unknown(program, interface, fault, meant, at_launcher=at_launcher)
        return Problem("argument-unknown", span, message, help_)
    related = fault.option.related if fault.option is not None else ()
    word = launch.span(program.word)
    if fault.argument.span is not None and word is not None and fault.argument.span.path != word.path:
        related = (*related, Related(word, "the command that gives it"))
    return Problem(
        "argument-invalid", span, fault.message, "change the value, or the declaration in the script", related
    )


def _opens_section(launch: Launch, word: str) -> bool:
    """Whether a word such as ``[--epochs`` was meant to begin the section of an optional input."""
    component = launch.step.component
    if component is None or component.command is None or not word.lstrip("$").startswith("["):
        return False
    after = parse_template(str(component.command.value).partition(word)[2]).expressions[:1]
    return any(port.optional for name in after if (port := component.inputs.get(name.port or "")))


def _describe_unknown(
    program: Program, interface: Interface, fault: Fault, meant: str | None, *, at_launcher: bool
) -> tuple[str, str]:
    """A word of the command that the script does not declare: message and help."""
    script, flag = program.path.name, _flag(fault)
    words = [word.bare for word in program.command.arguments]
    if at_launcher:
        launcher = program.inner.name if program.inner is not None else words[0]
        message = f"`{launcher}` gives `{script}` the argument `{flag}`, which it does not declare"
        return message, f'add `parser.add_argument("{flag}", type=int)` to the script'
    help_: str | None = None
    if fault.argument is not None and fault.what == "glued":
        written = fault.argument.written
        message = f"no blank separates `{flag}` from its value in `{written}`"
        help_ = f"write `{fault.names[0]} {written.removeprefix(flag)}`"
    elif fault.argument is not None and fault.argument.is_flag:
        message = f"`{script}` has no argument `{flag}`"
        free = _list_free(fault, interface)
        if meant is not None and find_meant(flag, free) != meant:
            help_ = f"write `{meant}`, which `{script}` needs"
        elif meant is not None or len(free) > 1:
            help_ = did_you_mean(flag, free)
    else:
        message = f"`{script}` takes no further argument, but the command gives `{flag}`"
        if "--" in words and words[words.index("--") + 1 :][:1] == [flag]:
            help_ = f"write `--{flag}` in place of `-- {flag}`"
    return message, help_ or f"remove `{flag}`, or declare it in the script"


def _find_meant(fault: Fault, interface: Interface, faults: list[Fault]) -> str | None:
    """The option that an unknown one stands for: the only one that is missing, or one that is similar."""
    needed = [name for other in faults if other.what == "missing" for name in other.names]
    unknown = [other for other in faults if other.what == "unknown"]
    if fault.valued and len(needed) == len(unknown) == 1 and needed[0].startswith("--"):
        return needed[0]
    return find_meant(_flag(fault), _list_free(fault, interface))


def _list_free(fault: Fault, interface: Interface) -> list[str]:
    """The options that the command does not give."""
    labels = (option.label for option in interface.options)
    return [label for label in labels if label not in fault.names and label != "--help"]


def _flag(fault: Fault) -> str:
    return "" if fault.argument is None else re.split(r"=|\$\{\{", fault.argument.written, maxsplit=1)[0]


class Fault(Struct):
    """A contradiction: ``what`` is `unknown`, `glued`, `missing`, `command` or `value`.

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
    """Takes the words of a command one after the other, as `argparse` does."""

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
        """Take every word, and return the contradictions with the interface."""
        while self.position < len(self.arguments):
            self.take()
        labels = tuple(option.label for option in self.interface.options if option in self.given)
        for fault in self.faults:
            if fault.what == "unknown" and not fault.names:
                fault.names = labels
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
        glued = self._find_glued(name)
        if glued is not None:
            self.faults.append(Fault("glued", argument, self.by_flag[glued], names=(glued,)))
            self.given.add(self.by_flag[glued])
            return
        known = name.partition("$")[0]
        is_open = "$" in name and any(flag.startswith(known) for flag in self.flags)
        may_be = not fits and (is_open or self._may_know(name))
        if may_be:
            self.sure = False
            return
        if self.strict and fits:
            listed = " and ".join(f"`{flag}`" for flag in fits[:4])
            message = f"`{name}` may stand for {listed}"
            self.faults.append(Fault("value", argument, self.by_flag[fits[0]], message))
        elif self.strict:
            following = self.arguments[self.position : self.position + 1]
            valued = "=" in argument.written or any(not word.is_flag for word in following)
            self.faults.append(Fault("unknown", argument, valued=valued))
        while self.position < len(self.arguments) and not self.arguments[self.position].is_flag:
            self.position += 1  # its values
            self.swallowed = True

    def _find_glued(self, name: str) -> str | None:
        """The flag that an expression follows without a blank, as in `--month${{inputs.month}}`."""
        flag, is_expression, _ = name.partition("${{")
        if not (is_expression and flag.startswith("--")):
            return None
        is_begun = any(other.startswith(flag) for other in self.flags)
        return flag if flag in self.by_flag else None if is_begun else find_meant(flag, self.flags)

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
            else [name for name, command in commands.items() if command.closed and not name.startswith("_")]
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
            exclusive = [option for option in options if option in self.given]
            if len(exclusive) > 1:
                labels = f"`{exclusive[0].label}` and `{exclusive[1].label}`"
                at = next(
                    argument
                    for argument in self.arguments
                    if argument.written.partition("=")[0] in exclusive[1].flags
                )
                yield Fault("value", at, exclusive[1], f"{labels} exclude each other")
            elif required and not exclusive and self.sure and self.interface.closed:
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
        message = f"`{flag.written}` needs {words}, but the command gives {len(values) or 'none'}"
        yield Fault("value", flag, option, message)
        return
    for value in values if option.most != 0 else ():
        for text in value.choices or (value,):
            yield from _judge_value(option, text)


def _judge_value(option: Option, value: Argument) -> Iterator[Fault]:
    shown = value.text if value.text is not None else value.written
    converted: object = value.text
    if option.kind is not None:
        converted = _convert(option.kind, value.text)
        if (value.text is not None and converted is None) or not value.numeric:
            noun = "a whole number" if option.kind is int else "a number"
            yield Fault("value", value, option, f"`{option.label}` takes {noun}, but it is given `{shown}`")
            return
        least, most = option.bounds
        if isinstance(converted, int | float) and not (
            (least is None or converted >= least) and (most is None or converted <= most)
        ):
            words = f"{least} to {most}"
            if least is None or most is None:
                words = f"at least {least}" if most is None else f"at most {most}"
            yield Fault("value", value, option, f"`{option.label}` takes {words}, but it is given {shown}")
            return
    if option.choices is None or value.text is None or converted in option.choices:
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


def check_boolean_by_bool(context: Tree, program: Program) -> Iterator[Finding]:
    flag_names = {flag.name for flag in program.command.flags() if flag.value is not None}
    for module, call in program.called("add_argument"):
        kind = keyword_argument(call, "type")
        if not isinstance(kind, ast.Name) or kind.id != "bool":
            continue
        for option in (constant_value(argument) for argument in call.args):
            if isinstance(option, str) and option.lstrip("-").lower().replace("-", "_") in flag_names:
                message = f"`{option} False` is read as true: `bool` of any text that is not empty is true"
                help_ = 'write `type=lambda text: text.lower() == "true"`'
                fix = Fix(module.span(kind), 'lambda text: text.lower() == "true"', safe=False)
                yield Finding(module.span(kind), message, help_, related=program.related, fix=fix)
