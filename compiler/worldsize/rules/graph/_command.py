"""The texts of a component that hold expressions: its command, or the arguments of a task or Spark job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from worldsize.azureml import binding
from worldsize.azureml.binding import Template
from worldsize.azureml.model import Component
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
