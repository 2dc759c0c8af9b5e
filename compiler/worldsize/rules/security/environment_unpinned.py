"""A step uses the latest version of its environment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component, Step
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Scalar

_LATEST = re.compile(r"(?:@|/labels/)latest\s*$")


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    field = component.environment
    if field is not None and isinstance(field.node, Scalar):
        yield from _judge(field.node)


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    node = step.raw.get("environment") if isinstance(step.raw, Mapping) else None
    if isinstance(node, Scalar):  # a step's own environment goes before its component's
        yield from _judge(node)


def _judge(node: Scalar) -> Iterator[Finding]:
    latest = _LATEST.search(node.text)
    if latest is not None:
        span = node.subspan(latest.start(), latest.end())
        message = f"`{latest[0].strip()}` is another environment as soon as a new version is registered"
        name = node.text[: latest.start()]
        pinned = f"{name}/versions/N" if "/" in latest[0] else f"{name}:N"
        yield Finding(span, message, f"write `{pinned}` with the version N that was tested")
