"""The command uses a value with spaces or shell characters outside quotes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from worldsize.azureml import binding, command_line
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Component, Field, Job, Literal, Step
from worldsize.base.patterns import compile_later
from worldsize.base.problem import Finding, Related
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context

_SIGN = compile_later(r"[;&|<>*?()'\"\[\n]|[^\S\n]+")
_CONTROL = compile_later(r"[;&|<>\n]")  # ends the command, or sends what it prints elsewhere
_OPTIONS = compile_later(r"--?[A-Za-z]")  # `--lr 0.1 --epochs 3` is meant to be split


_NUMBERS = compile_later(r"[-+.,\deE\s]+")  # `28 35` is a list
_FLAG = compile_later(r"(--?[A-Za-z][\w-]{0,80})[ \t]{0,9}$")
_MARK = re.compile(r"""[\\'"]""")


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(context, ((step, use) for use in find_shell_uses(step)))


def check_job(context: Context, job: Job) -> Iterator[Finding]:
    yield from _judge(context, find_bound_uses(job))


def _judge(context: Context, uses: Iterable[tuple[Step, ShellUse]]) -> Iterator[Finding]:
    for step, use in uses:
        sign = _sign(use)
        if use.quote or sign is None or "`" in use.value or "$(" in use.value:
            continue
        if not (sign.strip() or "\n" in sign) and _is_list(context, step.component, use):
            continue
        command = step.component.command if step.component else None
        what = f"`{sign}`" if sign.strip() else "a line break" if sign == "\n" else "a blank"
        message = f"`{use.name}` contains {what}, and the command uses it without quotation marks"
        help_ = f'write `"{use.expression}"` in the command'
        related: tuple[Related, ...] = ()
        if command is not None and isinstance(command.node, Scalar) and command.node.text == command.value:
            place = command.node.subspan(use.expression.start, use.expression.end)
            related = (Related(place, "pasted in here as it is"),)
        assert use.argument.span is not None
        yield Finding(use.argument.span, message, help_, related=related)


def _sign(use: ShellUse) -> str | None:
    """The first character that makes the shell change the meaning of the text."""
    text = use.value.strip()
    if _OPTIONS.match(text):
        match = _CONTROL.search(text)
    elif use.echoed:  # it prints its words with blanks between them again
        match = next((sign for sign in _SIGN.finditer(text) if sign[0].strip() or sign[0] == "\n"), None)
    else:
        match = _SIGN.search(text)
    return None if match is None else match[0]


def _is_list(context: Context, component: Component | None, use: ShellUse) -> bool:
    """Whether the blanks are meant to split the text: between numbers, or as ``nargs="+"`` declares."""
    if _NUMBERS.fullmatch(use.value):
        return True
    command = component.command.value if component is not None and component.command is not None else None
    flag = _FLAG.search(str(command), 0, use.expression.start)
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


class ShellUse(NamedTuple):
    """A literal text of an input where the command uses it.

    ``quote`` is what surrounds it there, ``echoed`` whether it is only printed.
    """

    name: str
    value: str
    argument: Field[Argument]
    expression: Expression
    quote: str  # "", ' or "
    echoed: bool


def find_shell_uses(step: Step) -> Iterator[ShellUse]:
    """The texts of inputs of a step, at every place where its command uses them."""
    yield from _uses(step, step.inputs)


def find_bound_uses(job: Job) -> Iterator[tuple[Step, ShellUse]]:
    """The texts of inputs of a pipeline, at every place where a command uses an input bound to one."""
    for step in job.steps.values():
        bound = {
            name: job.inputs[field.value.expression.port or ""]
            for name, field in step.inputs.items()
            if isinstance(field.value, Binding) and field.value.expression.scope == "parent.inputs"
            and field.value.expression.port in job.inputs
        }  # fmt: skip
        for use in _uses(step, bound):
            yield step, use


def _uses(step: Step, inputs: Mapping[str, Field[Argument]]) -> Iterator[ShellUse]:
    component = step.component
    command = component.command if component is not None else None
    if component is None or command is None or not isinstance(command.value, str):
        return
    texts = {
        name: (field.value.value, field)
        for name, field in inputs.items()
        if isinstance(field.value, Literal) and isinstance(field.value.value, str)
        and field.span is not None and "${{" not in field.value.value
    }  # fmt: skip
    for place in _find_places(command.value) if texts else ():
        name = place.expression.port or ""
        if name in texts:
            yield ShellUse(name, *texts[name], place.expression, place.quote, place.echoed)


class _Place(NamedTuple):
    """Where a command uses an input; see :class:`ShellUse`."""

    expression: Expression
    quote: str
    echoed: bool


@lru_cache(maxsize=1 << 10)  # several steps share a component, and several rules ask for each
def _find_places(command: str) -> tuple[_Place, ...]:
    starts = {
        expression.start: expression
        for expression in binding.find_expressions(command)
        if expression.scope == "inputs"
    }
    echoes = list(_echoes(command)) if starts else []
    places = []
    for start, quote in _quotes(command, starts):
        before = bisect_right(echoes, (start, len(command))) - 1
        echoed = before >= 0 and start < echoes[before][1]
        places.append(_Place(starts[start], quote, echoed))
    return tuple(places)


def _echoes(command: str) -> Iterator[tuple[int, int]]:
    """The places of the words that ``echo`` prints."""
    for parsed in command_line.parse_commands(command):
        words = parsed.arguments
        if len(words) > 1 and words[0].bare == "echo":
            yield words[1].start, words[-1].end


def _quotes(command: str, starts: Collection[int]) -> Iterator[tuple[int, str]]:
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
