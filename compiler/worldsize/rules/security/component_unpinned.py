"""A step uses whatever version of a registered component is the latest on the day.

Why: The same pipeline runs other code next month.

Bad::

    component: azureml:train_digits@latest

Good::

    component: azureml:train_digits:3

Fix: Write the version that was tested.

Source: Microsoft Learn, CLI (v2) pipeline job YAML schema, ``component``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Step
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule(
    "WS812", "component-unpinned", "info", since="0.1.0", summary="a registered component without a version"
)


@RULE.checks(Step)
def check(context: Context, step: Step) -> Iterator[Problem]:
    node = step.reference.node if step.reference is not None else None
    if not isinstance(node, Scalar) or not node.text.startswith("azureml:"):
        return
    for ending in ("@latest", "/labels/latest"):
        if node.text.endswith(ending):
            name = node.text[: -len(ending)]
            message = f"`{ending}` is other code as soon as a new version is registered"
            pinned = f"{name}/versions/N" if "/" in ending else f"{name}:N"
            span = node.subspan(len(name), len(node.text))
            yield RULE.problem(span, message, f"write `{pinned}` with the version N that was tested")
