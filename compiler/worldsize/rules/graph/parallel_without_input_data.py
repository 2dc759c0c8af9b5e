"""A parallel step does not say which input is split into batches.

``input_data`` names one of the step's inputs.

Why: The service refuses the step.

Bad::

    type: parallel

Good::

    input_data: ${{inputs.images}}

Fix: Write ``input_data: ${{inputs.NAME}}``.

Source: Microsoft Learn, How to use parallel job in pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component, Step
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Node

RULE = Rule(
    "WS642",
    "parallel-without-input-data",
    "error",
    since="0.1.0",
    summary="a parallel step that is not told what to split",
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    if step.type == "parallel" and step.component is not None and step.component.raw is step.raw:
        yield from _one(step.raw, step.span, list(step.inputs))


@RULE.checks(Component)
def check_component(context: Context, component: Component) -> Iterator[Problem]:
    if component.type == "parallel" and component.path is not None:
        yield from _one(component.raw, None, list(component.inputs))


def _one(node: Node | None, span: Span | None, inputs: list[str]) -> Iterator[Problem]:
    if not isinstance(node, Mapping) or "task" not in node or "input_data" in node:
        return
    key = node.key("type")
    name = inputs[0] if inputs else "NAME"
    message = "`input_data` is missing, so nothing says which input is split into batches"
    place = key.span if key is not None else span
    yield RULE.problem(place or NOWHERE, message, f"add `input_data: ${{{{inputs.{name}}}}}`")
