"""An input has a name that Azure ML reserves.

Inputs become environment variables, and ``path``, ``user``, ``home`` and a few others are taken.

Why: The variable of the system may be replaced, and the script no longer finds its programs.

Bad::

    path: {type: string}

Good::

    data_path: {type: string}

Fix: Rename the input.

Source: Microsoft Learn, CLI (v2) command component YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS653",
    "name-reserved",
    "warning",
    since="0.1.0",
    summary="an input with the name of a variable of the system",
)


_RESERVED = frozenset({"path", "ld_library_path", "user", "logname", "home", "pwd", "shell"})


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.raw is None:
        return
    for name, port in component.inputs.items():
        if name.lower() in _RESERVED:
            message = f"`{name}` is a reserved name"
            yield RULE.problem(
                port.span or NOWHERE, message, f"rename it, for example to `data_{name.lower()}`"
            )
