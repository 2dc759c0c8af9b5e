"""The words that a script gets from a command, with the values of the step that starts it."""

from __future__ import annotations

import re
from typing import NamedTuple

from worldsize.azureml import binding, literals
from worldsize.azureml.binding import Expression
from worldsize.azureml.launch import Launch, read_input
from worldsize.azureml.model import Binding, Literal, Port
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Scalar, Sequence
from worldsize.scripts.program import Program

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")  # what argparse takes for a negative number
_SHELL = re.compile(r"[$`*?\\~]|\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ONE_WORD = re.compile(r"\$\{?(?:(?:LOCAL_|NODE_)?RANK|WORLD_SIZE|MASTER_(?:ADDR|PORT))\}?")
_ENDS = frozenset({")", "}", "fi", "done", "esac", ";;"})
LOCAL_RANK = "--local_rank"
_LEFT_OUT = object()


class Argument(NamedTuple):
    """One word that a script gets."""

    written: str  # in the command, without the quotes around it
    text: str | None  # what the script gets; None where it is not known
    span: Span | None  # of what the user would edit: the word, or the value of the input
    place: Span | None = None  # of the word in the command
    numeric: bool = True  # False where the value surely is no number, such as a path of data
    loose: bool = False  # may be none or several words
    choices: tuple[Argument, ...] = ()  # what it is in the trials of a sweep

    @property
    def is_flag(self) -> bool:
        """Whether argparse treats the word as an option."""
        dashed = self.written.startswith("-") and len(self.written) > 1
        return dashed and _NUMBER.fullmatch(self.written) is None and " " not in self.written


def read_arguments(program: Program, launch: Launch) -> list[Argument]:
    """The words after the script, as one step passes them, without those of empty optional sections."""
    component = launch.step.component
    command = component.command.value if component is not None and component.command is not None else ""
    template = binding.parse_template(str(command))
    absent = [
        section
        for section in template.sections
        if any(_value(launch, expression) is _LEFT_OUT for expression in section.expressions)
    ]
    words = program.command.arguments
    arguments = _words_of_launcher(program, launch)
    depth = 0  # of `$( … )`
    for word in words[words.index(program.word) + 1 :]:
        text = word.text
        if text.startswith("#") or (not depth and text in _ENDS):
            break
        opened, inside = text.replace("${{", "").count("$("), depth > 0
        depth = max(0, depth + (text.count("(") - text.count(")") if inside or opened else 0))
        if inside or (
            word.source is None and any(section.start <= word.start < section.end for section in absent)
        ):
            continue
        if opened or "`" in text:
            arguments.append(Argument("$()", None, None, loose=True))
        else:
            arguments.append(_argument(launch, word.bare, launch.span(word), quoted=word.bare != text))
    return arguments


def _words_of_launcher(program: Program, launch: Launch) -> list[Argument]:
    """The argument that the launcher itself passes to every process; torch 2 spells it with a hyphen."""
    arguments = program.command.arguments
    words = [word.bare for word in arguments[: arguments.index(program.word)]]
    adds = (words[0] == "deepspeed" and "--no_local_rank" not in words) or (
        "torch.distributed.launch" in words and not {"--use_env", "--use-env"} & {*words}
    )
    span = launch.span(program.command.arguments[0])
    return [Argument(LOCAL_RANK + "=0", LOCAL_RANK + "=0", span, span)] if adds else []


def _argument(launch: Launch, bare: str, span: Span | None, *, quoted: bool) -> Argument:
    expression = binding.parse_expression(bare)
    if expression is None:
        rest = bare
        for reference in binding.find_expressions(bare):
            rest = rest.replace(str(reference), "")
        if rest != bare or "${{" in bare:
            return Argument(bare, None, span, span)
        shell = _SHELL.search(bare) is not None and not (quoted and "$" not in bare and "`" not in bare)
        text = None if shell else bare.replace('"', "").replace("'", "")
        loose = shell and not bare.startswith("-") and not _ONE_WORD.fullmatch(bare)
        return Argument(bare, text, span, span, loose=loose)
    choices = _read_choices(launch, expression, bare, span)
    if choices:
        return Argument(bare, None, span, span, choices=choices)
    value, port = _value(launch, expression), _find_port(launch, expression)
    is_data = expression.scope == "outputs" or (port is not None and port.is_data)
    if isinstance(value, str | int | float):
        text = literals.render_literal(value)
        loose = not quoted and (" " in text or not text)
        unknown = loose or is_data or "${{" in text or _SHELL.search(text) or not _accepts(port, value)
        edited = _value_span(launch, expression) or span
        return Argument(bare, None if unknown else text, edited, span, not is_data, loose)
    is_text = not is_data and (port is None or port.type == "string")
    return Argument(bare, None, span, span, not is_data, is_text and not quoted)


def _read_choices(
    launch: Launch, expression: Expression, bare: str, span: Span | None
) -> tuple[Argument, ...]:
    """The words that a sweep chooses from for `${{search_space.x}}`, or for an input of its trial."""
    raw = launch.step.raw
    space = raw.get("search_space") if launch.step.type == "sweep" and isinstance(raw, Mapping) else None
    entry = space.get(expression.port or "") if isinstance(space, Mapping) else None
    values = entry.get("values") if isinstance(entry, Mapping) else None
    if expression.scope not in ("search_space", "inputs") or not isinstance(values, Sequence):
        return ()
    return tuple(
        Argument(bare, text, value.span, span)
        for value in values.items
        if isinstance(value, Scalar)
        and isinstance(value.value, str | int | float)
        and (text := literals.render_literal(value.value))
        and not _SHELL.search(text)
    )


def _accepts(port: Port | None, value: object) -> bool:
    """Whether the input accepts its value; another rule reports it otherwise."""
    if port is None or port.is_data:
        return True
    listed = port.enum.value if port.enum is not None and isinstance(port.enum.value, list) else None
    return literals.accepts_literal(port.type, value) and (listed is None or str(value) in map(str, listed))


def _find_port(launch: Launch, expression: Expression) -> Port | None:
    """The input of the component that an expression names."""
    component = launch.step.component
    return component.inputs.get(expression.port or "") if component is not None else None


def _value(launch: Launch, expression: Expression) -> object:
    """The value of `${{inputs.x}}`; `_LEFT_OUT` for an optional input without a value."""
    if expression.scope != "inputs":
        return None
    value, port = read_input(launch, expression.port), _find_port(launch, expression)
    step = launch.step
    if value is None and port is not None and port.optional and port.default is None and step.name:
        return _LEFT_OUT if expression.port not in step.inputs else None
    return value


def _value_span(launch: Launch, expression: Expression) -> Span | None:
    """Where the value of an input is written."""
    argument = launch.step.inputs.get(expression.port or "")
    if argument is None:
        port = _find_port(launch, expression)
        return port.default.span if port is not None and port.default is not None else None
    if isinstance(argument.value, Binding):
        source = launch.job.inputs.get(argument.value.expression.port or "")
        return source.span if source is not None else None
    return argument.span if isinstance(argument.value, Literal) else None
