"""An input has the name of a method of Python's mappings.

In the Python SDK the inputs of a step are a mapping with attributes: ``step.inputs.keys`` is its method.

Why: Whoever uses the component from Python gets the method in place of the input.

Bad::

    items: {type: string}

Good::

    item_list: {type: string}

Fix: Rename the input.

Source: azure-ai-ml, ``NodeInput`` and its mapping of attributes.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS654", "name-shadows-method", "warning", since="0.1.0", summary="an input with the name of a method"
)


_METHODS = frozenset(
    {"clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.raw is None or component.path is None:
        return
    for name, port in component.inputs.items():
        if name in _METHODS:
            message = f"`{name}` is a method of the SDK's inputs, which hides the input from Python"
            yield RULE.problem(port.span or NOWHERE, message, f"rename it, for example to `{name}_text`")
