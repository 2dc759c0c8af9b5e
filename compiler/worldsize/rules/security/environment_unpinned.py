"""A step runs in whatever version of its environment is the latest on the day.

``@latest`` and ``labels/latest`` are looked up at submission.

Why: The same file trains with other packages next month, and a comparison compares those as well.

Bad::

    environment: azureml:pytorch-training@latest

Good::

    environment: azureml:pytorch-training:7

Fix: Write the version that was tested.

Source: Microsoft Learn, Manage environments: versions and labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component, Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar

RULE = Rule(
    "WS810", "environment-unpinned", "info", since="0.1.0", summary="an environment without a version"
)
_LATEST = re.compile(r"(?:@|/labels/)latest\s*$")


@RULE.checks(Component)
def check_component(context: Context, component: Component) -> Iterator[Problem]:
    field = component.environment
    if field is not None and isinstance(field.node, Scalar):
        yield from _judge(field.node)


@RULE.checks(Step)
def check_step(context: Context, step: Step) -> Iterator[Problem]:
    node = step.raw.get("environment") if isinstance(step.raw, Mapping) else None
    if isinstance(node, Scalar):  # a step's own environment goes before its component's
        yield from _judge(node)


def _judge(node: Scalar) -> Iterator[Problem]:
    found = _LATEST.search(node.text)
    if found is not None:
        span = node.subspan(found.start(), found.end())
        message = f"`{found[0].strip()}` is another environment as soon as a new version is registered"
        name = node.text[: found.start()]
        pinned = f"{name}/versions/N" if "/" in found[0] else f"{name}:N"
        yield RULE.problem(span, message, f"write `{pinned}` with the version N that was tested")
