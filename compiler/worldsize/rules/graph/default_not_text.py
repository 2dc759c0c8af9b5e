"""The default of a text input is a number or a boolean."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding, Fix
from worldsize.rules.context import Context
from worldsize.rules.graph._common import span_of
from worldsize.yaml.nodes import Scalar


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for port in component.inputs.values():
        default = port.default
        if port.type != "string" or default is None or not isinstance(default.node, Scalar):
            continue
        read = _read(default.value)
        if read is not None and read != default.node.text:
            quoted = f'"{default.node.text}"'
            message = f"default `{default.node.text}` of the text `{port.name}` becomes `{read}`"
            fix = Fix(span_of(default), quoted, safe=False)  # the script may rely on what it gets today
            yield Finding(span_of(default), message, f"quote it: {quoted}", fix=fix)


def _read(value: object) -> str | None:
    """The text that azure-ai-ml makes of an unquoted default: its schema tries numbers before texts."""
    if isinstance(value, bool):
        return str(value)
    return str(float(value)) if isinstance(value, (int, float)) else None
