"""Two inputs or two outputs of a component have names that differ only by upper and lower case.

Azure ML compares names without regard to case.

Why: The component is refused.

Bad::

    RATE: {type: number}

Good::

    factor: {type: number}

Fix: Rename one of the two.

Source: azure-ai-ml, validation of component inputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS652",
    "names-differ-by-case",
    "error",
    since="0.1.0",
    summary="two inputs whose names differ only by case",
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.raw is None:
        return
    for side, ports in (("inputs", component.inputs), ("outputs", component.outputs)):
        first: dict[str, str] = {}
        for name, port in ports.items():
            before = first.setdefault(name.lower(), name)
            if before != name:
                earlier = ports[before].span
                related = (Related(earlier, f"`{before}` stands here"),) if earlier else ()
                message = f"the {side} `{before}` and `{name}` differ only by upper and lower case"
                yield RULE.problem(port.span or NOWHERE, message, "rename one of the two", related=related)
