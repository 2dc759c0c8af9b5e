"""The command uses a required input inside ``$[[ ]]``.

Only optional inputs may stand there.

Why: The service refuses the component.

Bad::

    command: echo $[[--epochs ${{inputs.epochs}}]]

Good::

    command: echo --epochs ${{inputs.epochs}}

Fix: Take the option out of ``$[[ ]]``, or write ``optional: true``.

Source: Microsoft Learn, CLI (v2) command component YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph import _command
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS651", "required-input-in-section", "error", since="0.1.0", summary="a required input inside `$[[ ]]`"
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    if component.path is None:
        return
    for text in _command.texts(context, component):
        for section in text.template.sections:
            for found in section.expressions:
                port = component.inputs.get(found.port or "") if found.scope == "inputs" else None
                if port is not None and not port.optional:
                    message = f"`{port.name}` is required, and only optional inputs may stand in `$[[ ]]`"
                    help_ = "take it out of the brackets, or declare it with `optional: true`"
                    yield RULE.problem(text.span(found.start, found.end), message, help_)
