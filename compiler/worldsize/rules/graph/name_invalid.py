"""The name of an input or output has characters that Azure ML does not take.

Names have letters, digits and ``_`` and do not begin with a digit. A dot puts an input into a group.

Why: The component is refused, after sign-in and without a line.

Bad::

    learning-rate: {type: number}

Good::

    learning_rate: {type: number}

Fix: Use ``_`` in place of other characters.

Source: azure-ai-ml, validation of component parameter names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS655", "name-invalid", "error", since="0.1.0", summary="an input or output that cannot be named so"
)


_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_OTHER = re.compile(r"\W", re.ASCII)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.raw is None:
        return
    for port in [*component.inputs.values(), *component.outputs.values()]:
        if not _NAME.fullmatch(port.name):
            message = f"`{port.name}` cannot be the name of an input or output"
            better = _OTHER.sub("_", port.name)
            better = better if not better[:1].isdigit() else f"_{better}"
            yield RULE.problem(port.span or NOWHERE, message, f"write `{better}`")
