"""Values that the shell splits, interprets or executes, and texts that no process can be given."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from worldsize.azureml import binding, command_line
from worldsize.azureml.binding import Expression
from worldsize.azureml.fields import read_command
from worldsize.azureml.graph import follow_binding
from worldsize.azureml.model import Argument, Component, Field, Job, Literal, Step
from worldsize.azureml.tree import Tree
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Problem, Related
from worldsize.base.span import Span
from worldsize.documents.yaml import Document
from worldsize.documents.yaml.nodes import Scalar, find_node, list_entries, list_scalars

_SIGN = compile_later(r"[;&|<>*?()'\"\[\n]|[^\S\n]+")
_CONTROL = compile_later(r"[;&|<>\n]")  # ends the command, or sends what it prints elsewhere
_OPTIONS = compile_later(r"--?[A-Za-z]")  # `--lr 0.1 --epochs 3` is meant to be split


_NUMBERS = compile_later(r"[-+.,\deE\s]+")  # `28 35` is a list
_FLAG = compile_later(r"(--?[A-Za-z][\w-]{0,80})[ \t]{0,9}$")
_MARK = re.compile(r"""[\\'"]""")


def check_step(context: Tree, step: Step) -> Iterator[Problem]:
    for use in _find_uses(step, step.inputs):
        yield from _judge(context, step, use)


def check_job(context: Tree, job: Job) -> Iterator[Problem]:
    for step in job.steps.values():
        bound = {
            name: source
            for name, field in step.inputs.items()
            if (source := follow_binding(job, field)) is not None and source is not field
        }
        for use in _find_uses(step, bound):
            yield from _judge(context, step, use)


def _judge(context: Tree, step: Step, use: _Use) -> Iterator[Problem]:
    sign, interpreted = _find_sign(use), _find_interpreted(use)
    if interpreted is not None:
        shown = "a back-tick" if interpreted == "`" else f"`{interpreted}`"
        message = f"`{use.name}` contains {shown}, which the shell interprets in the command"
        help_ = "leave it out of the value, or let the script read the text from a file"
        yield Problem("text-runs-in-shell", use.span, message, help_)
    if use.place.quote or sign is None or "`" in use.value or "$(" in use.value:
        return
    if not (sign.strip() or "\n" in sign) and _is_list(context, step.component, use):
        return
    command = step.component.command if step.component else None
    what = f"`{sign}`" if sign.strip() else "a line break" if sign == "\n" else "a blank"
    message = f"`{use.name}` contains {what}, and the command uses it without quotation marks"
    help_ = f'write `"{use.place.expression}"` in the command'
    related: tuple[Related, ...] = ()
    if command is not None and isinstance(command.node, Scalar) and command.node.text == command.value:
        place = command.node.subspan(use.place.expression.start, use.place.expression.end)
        related = (Related(place, "pasted in here as it is"),)
    yield Problem("text-splits-in-shell", use.span, message, help_, related)


def _find_interpreted(use: _Use) -> str | None:
    """What the shell executes although it is quoted, or what ends the quotation."""
    quote = use.place.quote
    marks = [*(("$(", "`") if quote != "'" else ()), *quote]
    return next((mark for mark in marks if mark in use.value), None)


def _find_sign(use: _Use) -> str | None:
    """The first character that makes the shell change the meaning of the text."""
    text = use.value.strip()
    if _OPTIONS.match(text):
        match = _CONTROL.search(text)
    elif use.place.echoed:  # it prints its words with blanks between them again
        match = next((sign for sign in _SIGN.finditer(text) if sign[0].strip() or sign[0] == "\n"), None)
    else:
        match = _SIGN.search(text)
    return None if match is None else match[0]


def _is_list(context: Tree, component: Component | None, use: _Use) -> bool:
    """Whether the blanks are meant to split the text: between numbers, or as ``nargs="+"`` declares."""
    if _NUMBERS.fullmatch(use.value):
        return True
    flag = _FLAG.search(read_command(component), 0, use.place.expression.start)
    if component is None or flag is None:
        return False
    from worldsize.scripts.interface.read import read_interface  # parse Python, which few such texts need
    from worldsize.scripts.program import find_programs, make_job

    for program in find_programs(context, context.once(make_job, component)):
        interface = read_interface(program)
        options = interface.options if interface is not None else []
        if any(flag[1] in option.flags and option.most != 1 for option in options):
            return True
    return False


class _Place(NamedTuple):
    """Where a command uses an input: ``quote`` surrounds it there, ``echoed`` if it is only printed."""

    expression: Expression
    quote: str  # "", ' or "
    echoed: bool


class _Use(NamedTuple):
    """A literal text of an input where the command uses it."""

    name: str
    value: str
    span: Span
    place: _Place


def _find_uses(step: Step, inputs: Mapping[str, Field[Argument]]) -> Iterator[_Use]:
    """The texts among inputs, at every place where the command of a step uses them."""
    command = read_command(step.component)
    texts = {
        name: (field.value.value, field.span)
        for name, field in inputs.items()
        if isinstance(field.value, Literal) and isinstance(field.value.value, str)
        and field.span is not None and "${{" not in field.value.value
    }  # fmt: skip
    for place in _find_places(command) if texts else ():
        name = place.expression.port or ""
        if name in texts:
            yield _Use(name, *texts[name], place)


@lru_cache(maxsize=1 << 10)  # several steps share a component
def _find_places(command: str) -> tuple[_Place, ...]:
    starts = {
        expression.start: expression
        for expression in binding.find_expressions(command)
        if expression.scope == "inputs"
    }
    echoes = list(_find_echoes(command)) if starts else []
    places = []
    for start, quote in _find_quotes(command, starts):
        before = bisect_right(echoes, (start, len(command))) - 1
        echoed = before >= 0 and start < echoes[before][1]
        places.append(_Place(starts[start], quote, echoed))
    return tuple(places)


def _find_echoes(command: str) -> Iterator[tuple[int, int]]:
    """The places of the words that ``echo`` prints."""
    for parsed in command_line.parse_commands(command):
        words = parsed.arguments
        if len(words) > 1 and words[0].bare == "echo":
            yield words[1].start, words[-1].end


def _find_quotes(command: str, starts: Collection[int]) -> Iterator[tuple[int, str]]:
    """The quotation mark that is open at each start."""
    waiting = sorted(starts)
    quote, position = "", 0
    while waiting:
        mark = _MARK.search(command, position)
        at = mark.start() if mark is not None else len(command)
        while waiting and waiting[0] <= at:
            yield waiting.pop(0), quote
        if mark is None:
            return
        letter = mark.group()
        position = at + (
            2 if letter == "\\" and quote != "'" else 1
        )  # a backslash takes the next letter along
        if letter == quote:
            quote = ""
        elif letter != "\\" and not quote:
            quote = letter


_WRITTEN = re.compile(r"\\(?:0|x00|u0000|U00000000)")


def check_nul_in_text(context: Tree, document: Document) -> Iterator[Finding]:
    if _WRITTEN.search(document.text) is None:
        return
    for scalar in list_scalars(document.root):
        if "\0" in scalar.text:
            message = (
                "this text contains a NUL character, which a command, variable or file name cannot contain"
            )
            yield Finding(scalar.span, message, "remove the `\\0`")


def check_variable_name_impossible(context: Tree, subject: Component | Step) -> Iterator[Finding]:
    for key, _ in list_entries(find_node(subject.raw, "environment_variables")):
        if not key.text or "=" in key.text:
            message = f"`{key.text}` cannot be the name of an environment variable"
            name, _, value = key.text.partition("=")
            help_ = f"write `{name}: {value}`" if name and value else "write a name of letters and digits"
            yield Finding(key.span, message, help_)
