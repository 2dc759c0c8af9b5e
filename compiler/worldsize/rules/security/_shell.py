"""Where the values of inputs stand in a command line, and how the shell will read them there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from worldsize.azureml import binding, command_line
from worldsize.azureml.binding import Expression
from worldsize.azureml.model import Argument, Binding, Field, Job, Literal, Step

_MARK = re.compile(r"""[\\'"]""")


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
    """The texts that a step gives to inputs of its command, at each place of use."""
    yield from _uses(step, step.inputs)


def find_bound_uses(job: Job) -> Iterator[tuple[Step, ShellUse]]:
    """The texts that a pipeline gives to its own inputs, where commands use what is bound to them."""
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
    starts = {each.start: each for each in binding.find_expressions(command) if each.scope == "inputs"}
    echoes = list(_echoes(command)) if starts else []
    places = []
    for start, quote in _quotes(command, starts):
        before = bisect_right(echoes, (start, len(command))) - 1
        echoed = before >= 0 and start < echoes[before][1]
        places.append(_Place(starts[start], quote, echoed))
    return tuple(places)


def _echoes(command: str) -> Iterator[tuple[int, int]]:
    """Where the words stand that ``echo`` prints."""
    for each in command_line.parse_commands(command):
        words = each.arguments
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
