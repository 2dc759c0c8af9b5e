"""What the command gives to a script and what the script declares contradict each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from worldsize.azureml.launch import Launch
from worldsize.base.problem import Problem, Related
from worldsize.base.span import Span
from worldsize.base.suggest import did_you_mean, find_meant
from worldsize.base.wording import plural
from worldsize.rules.context import Context
from worldsize.rules.script._matching import Fault, match_arguments
from worldsize.rules.topology._gpu_builds import list_frameworks
from worldsize.scripts.interface.model import Interface
from worldsize.scripts.interface.read import find_words_read, read_interface, read_reached
from worldsize.scripts.module import Module
from worldsize.scripts.program import Program
from worldsize.scripts.words import read_arguments

_STEPS = 200  # that start the same script, whose inputs are looked at


def check_program(context: Context, program: Program) -> Iterator[Problem]:
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
            problem = _report(program, launch, interface, fault, faults)
            if problem is not None and (problem.message, problem.span) not in said:
                said.add((problem.message, problem.span))
                # what fire does with a word that it cannot use depends on what the function returns
                certain = interface.certain and interface.kind != "fire"
                yield problem if certain else replace(problem, confidence="likely")


def _check_launcher(context: Context, program: Program, interface: Interface) -> Iterator[Problem]:
    """`torch.distributed.launch`, which from torch 2 on gives `--local-rank`, and before `--local_rank`."""
    words = [word.bare for word in program.command.arguments]
    component, span = program.launch.step.component, program.launch.span(program.command.arguments[0])
    if "torch.distributed.launch" not in words or {"--use_env", "--use-env"} & {*words} or component is None:
        return
    flags = {flag for option in interface.options for flag in option.flags}
    if not interface.closed or interface.ignores_others or "--local-rank" in flags or span is None:
        return
    for each in list_frameworks(context, component) if "--local_rank" in flags else ():
        if each.package == "torch" and not each.version.startswith(("0.", "1.")):
            message = (
                f"`torch.distributed.launch` of torch {each.version} gives `{program.path.name}`"
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
        given = plural(len(arguments), "word")
        message = f"`{program.path.name}` reads {plural(count, 'word')}, but the command gives it {given}"
        related = (Related(module.span(node), "the last word is read here"),)
        yield Problem("argument-missing", span, message, "add the words that are missing", related)


def _find_words(entry: Module, program: Program) -> tuple[int, Module, ast.AST] | None:
    others = {name.partition(".")[0] for module in program.modules for name, _, _ in module.imports}
    if not program.complete or others & {"argparse", "click", "typer", "fire", "optparse", "getopt"}:
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
        known = {_find_meant(each, interface, faults) for each in faults if each.what == "unknown"}
        names = [name for name in fault.names if name not in known]
        if not names or span is None:
            return None
        quoted = ", ".join(f"`{name}`" for name in names)
        message = f"`{script}` needs {quoted}, which the command does not give"
        related = next((each.related for each in interface.options if each.label == names[0]), ())
        return Problem(
            "argument-missing",
            span,
            message,
            f"add {quoted} with {'values' if len(names) > 1 else 'a value'} after `{script}`",
            related,
        )
    span = fault.argument.span or span
    if span is None:
        return None
    if fault.what == "unknown":
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
    if fault.argument is not None and fault.argument.is_flag:
        message = f"`{script}` has no argument `{flag}`"
        free = _list_free(fault, interface)
        if meant is not None and find_meant(flag, free) != meant:
            help_ = f"write `{meant}`, which `{script}` needs"
        elif meant is not None or len(free) > 1:
            help_ = did_you_mean(flag, free)
    else:
        message = f"`{script}` takes no further argument, but the command gives `{flag}`"
        if "--" in words and words[words.index("--") + 1 :][:1] == [flag]:
            help_ = f"write `--{flag}`, without a blank"
    return message, help_ or f"remove `{flag}`, or declare it in the script"


def _find_meant(fault: Fault, interface: Interface, faults: list[Fault]) -> str | None:
    """The option that an unknown one stands for: the only one that is missing, or one that is similar."""
    needed = [name for each in faults if each.what == "missing" for name in each.names]
    unknown = [each for each in faults if each.what == "unknown"]
    if fault.valued and len(needed) == len(unknown) == 1 and needed[0].startswith("--"):
        return needed[0]
    return find_meant(_flag(fault), _list_free(fault, interface))


def _list_free(fault: Fault, interface: Interface) -> list[str]:
    """The options that the command does not give."""
    labels = (option.label for option in interface.options)
    return [label for label in labels if label not in fault.names and label != "--help"]


def _flag(fault: Fault) -> str:
    return "" if fault.argument is None else fault.argument.written.partition("=")[0]
