"""The name of an environment variable is empty or contains `=`."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component, Step
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Node, find_node, list_entries
from worldsize.rules.context import Context


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    yield from _judge(component.raw)


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    yield from _judge(step.raw)


def _judge(raw: Node | None) -> Iterator[Finding]:
    for key, _ in list_entries(find_node(raw, "environment_variables")):
        if not key.text or "=" in key.text:
            message = f"`{key.text}` cannot be the name of an environment variable"
            name, _, value = key.text.partition("=")
            help_ = f"write `{name}: {value}`" if name and value else "write a name of letters and digits"
            yield Finding(key.span, message, help_)
