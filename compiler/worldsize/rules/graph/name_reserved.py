"""An input has the name of a system environment variable."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE

_RESERVED = frozenset({"path", "ld_library_path", "user", "logname", "home", "pwd", "shell"})


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for name, port in component.inputs.items():
        if name.lower() in _RESERVED:
            message = f"`{name}` is a reserved name"
            yield Finding(port.span or NOWHERE, message, f"rename it, for example to `data_{name.lower()}`")
