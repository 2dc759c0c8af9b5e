"""A command line with its placeholders filled in, as Azure ML does before the shell sees it."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.azureml import binding
from worldsize.azureml.binding import Expression


def render(command: str, inputs: Mapping[str, str | None], outputs: Mapping[str, str]) -> str:
    """Fill in a command.

    Nothing is quoted, because Azure ML quotes nothing: the text goes into the shell line as it is.

    Args:
        command: The command of a component.
        inputs: Rendered value of each input; None, or an absent name, is an input without a value.
        outputs: Path of each output.

    Returns:
        The command with every optional section either unwrapped or removed. An expression that
        names nothing known stays as it stands; rules report it before anything runs.
    """
    template = binding.parse(command)
    pieces: list[str] = []
    position = 0
    for section in template.sections:
        pieces.append(command[position : section.start])
        if all(_value(expression, inputs, outputs) is not None for expression in section.expressions):
            pieces.append(command[section.start + 3 : section.end - 2])
        position = section.end
    return _fill("".join([*pieces, command[position:]]), inputs, outputs)


def _fill(text: str, inputs: Mapping[str, str | None], outputs: Mapping[str, str]) -> str:
    pieces: list[str] = []
    position = 0
    for expression in binding.find(text):
        value = _value(expression, inputs, outputs)
        pieces += [text[position : expression.start], str(expression) if value is None else value]
        position = expression.end
    return "".join([*pieces, text[position:]])


def _value(
    expression: Expression, inputs: Mapping[str, str | None], outputs: Mapping[str, str]
) -> str | None:
    port = expression.port
    if port is None:
        return None
    if expression.scope == "inputs":
        return inputs.get(port)
    return outputs.get(port) if expression.scope == "outputs" else None
