"""An input has the name of a method of Python mappings."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE

_METHODS = frozenset(
    {"clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"}
)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    if component.path is None:
        return
    for name, port in component.inputs.items():
        if name in _METHODS:
            message = f"`{name}` is a method of the SDK's inputs, which hides the input from Python"
            yield Finding(port.span or NOWHERE, message, f"rename it, for example to `{name}_text`")
