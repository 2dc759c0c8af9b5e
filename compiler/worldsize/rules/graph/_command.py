"""The texts of a component that hold expressions, and optional inputs outside ``$[[ ]]`` in these."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml import binding
from worldsize.azureml.binding import Template
from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar
from worldsize.rules.context import Context


class CommandText(NamedTuple):
    """One such text, taken apart."""

    key: str
    node: Scalar
    template: Template

    def span(self, start: int, end: int) -> Span:
        """The place of a part."""
        return self.node.subspan(start, end)


def find_texts(context: Context, component: Component) -> list[CommandText]:
    """The texts of a component that hold expressions, as their file has them."""
    return context.all_of(_texts, component)


def _texts(_context: Context, component: Component) -> Iterator[CommandText]:
    raw = component.raw if isinstance(component.raw, Mapping) else None
    command = component.command.node if component.command is not None else None
    nodes = [("command", command)]
    if raw is not None and component.type.lower() == "spark":
        nodes.append(("args", raw.get("args")))
    task = raw.get("task") if raw is not None else None
    if isinstance(task, Mapping):
        nodes += [(key, task.get(key)) for key in ("program_arguments", "append_row_to")]
    for key, node in nodes:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            yield CommandText(key, node, binding.parse_template(node.value))


def find_split_texts(raw: Node | None) -> Iterator[CommandText]:
    """``input_data`` of a parallel step or component: which input is split into batches."""
    node = raw.get("input_data") if isinstance(raw, Mapping) else None
    if isinstance(node, Scalar) and isinstance(node.value, str):
        yield CommandText("input_data", node, binding.parse_template(node.value))


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    for text in find_texts(context, component):
        inside = {expression.start for part in text.template.sections for expression in part.expressions}
        for expression in text.template.expressions:
            port = component.inputs.get(expression.port or "") if expression.scope == "inputs" else None
            if port is None:
                continue
            if expression.start in inside:
                if not port.optional and component.path is not None:
                    message = f"`{port.name}` is required, but only optional inputs may be inside `$[[ ]]`"
                    help_ = "take it out of the brackets, or declare it with `optional: true`"
                    span = text.span(expression.start, expression.end)
                    yield Problem("required-input-in-section", span, message, help_)
            elif port.optional and port.default is None and not text.template.unclosed:
                # a section that is not closed may have been meant to hold it
                message = f"`{port.name}` is optional and has no default, but is used outside `$[[ ]]`"
                help_ = f"write `$[[--{port.name} {expression}]]`, which is omitted if there is no value"
                span = text.span(expression.start, expression.end)
                yield Problem("optional-input-unguarded", span, message, help_)
