"""The default of a text input is written as a number or a truth value.

Azure ML turns it into a text of its own: ``5`` becomes ``5.0``, ``yes`` becomes ``True``.

Why: The script gets another text than the one in the file.

Bad::

    tag: {type: string, default: 5}

Good::

    tag: {type: string, default: "5"}

Fix: Quote the value.

Source: azure-ai-ml, the field ``default`` of an input.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Fix, Problem
from worldsize.rules.context import Context
from worldsize.rules.graph._common import span_of
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule(
    "WS671", "default-not-text", "warning", since="0.1.0", summary="a number as the default of a text"
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.raw is None:
        return
    for port in component.inputs.values():
        default = port.default
        if port.type != "string" or default is None or not isinstance(default.node, Scalar):
            continue
        read = _read(default.value)
        if read is not None and read != default.node.text:
            quoted = f'"{default.node.text}"'
            message = f"default `{default.node.text}` of the text `{port.name}` becomes `{read}`"
            fix = Fix(span_of(default), quoted)
            yield RULE.problem(span_of(default), message, f"quote it: {quoted}", fix=fix)


def _read(value: object) -> str | None:
    """The text that azure-ai-ml makes of an unquoted default: its schema tries numbers before texts."""
    if isinstance(value, bool):
        return str(value)
    return str(float(value)) if isinstance(value, (int, float)) else None
