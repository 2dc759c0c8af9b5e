"""A parallel step does not say which input to split into batches."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.graph import is_inline
from worldsize.azureml.model import Component, Step
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    if step.type == "parallel" and is_inline(step):
        yield from _one(step.raw, step.span, list(step.inputs))


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    if component.type == "parallel" and component.path is not None:
        yield from _one(component.raw, None, list(component.inputs))


def _one(node: Node | None, span: Span | None, inputs: list[str]) -> Iterator[Finding]:
    if not isinstance(node, Mapping) or "task" not in node or "input_data" in node:
        return
    key = node.key("type")
    name = inputs[0] if inputs else "NAME"
    message = "`input_data` is missing, so nothing says which input is split into batches"
    place = key.span if key is not None else span
    yield Finding(place or NOWHERE, message, f"add `input_data: ${{{{inputs.{name}}}}}`")
