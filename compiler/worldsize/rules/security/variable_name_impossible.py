"""An environment variable has a name that no variable can have: empty, or with ``=`` in it.

Why: The system takes what stands before the ``=`` for the name, so another variable is set, or the process
is not started.

Bad::

    environment_variables: {"NCCL_DEBUG=INFO": "1"}

Good::

    environment_variables: {NCCL_DEBUG: INFO}

Fix: Write the name and the value on the two sides of the colon.

Source: POSIX, 8.1 Environment Variable Definition.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component, Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Node

RULE = Rule(
    "WS806",
    "variable-name-impossible",
    "error",
    since="0.1.0",
    summary="a name that no environment variable can have",
)


@RULE.checks(Component)
def check_component(context: Context, component: Component) -> Iterator[Problem]:
    yield from _judge(component.raw)


@RULE.checks(Step)
def check_step(context: Context, step: Step) -> Iterator[Problem]:
    yield from _judge(step.raw)


def _judge(raw: Node | None) -> Iterator[Problem]:
    block = raw.get("environment_variables") if isinstance(raw, Mapping) else None
    for key, _ in block.items() if isinstance(block, Mapping) else ():
        if not key.text or "=" in key.text:
            message = f"`{key.text}` cannot be the name of an environment variable"
            name, _, value = key.text.partition("=")
            help_ = f"write `{name}: {value}`" if name and value else "write a name of letters and digits"
            yield RULE.problem(key.span, message, help_)
