"""The command uses an optional input outside of ``$[[ ]]``.

What stands between ``$[[`` and ``]]`` vanishes where the input has no value.

Why: Without a value the expression stays in the command, or the job is refused.

Bad::

    command: echo --epochs ${{inputs.epochs}}

Good::

    command: echo $[[--epochs ${{inputs.epochs}}]]

Fix: Put the option and its value into ``$[[ ]]``.

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
    "WS650",
    "optional-input-unguarded",
    "error",
    since="0.1.0",
    summary="an optional input used outside of `$[[ ]]`",
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    for text in _command.texts(context, component):
        inside = {found.start for part in text.template.sections for found in part.expressions}
        for found in text.template.expressions:
            port = component.inputs.get(found.port or "") if found.scope == "inputs" else None
            if port is None or not port.optional or port.default is not None or found.start in inside:
                continue
            if text.template.unclosed:
                continue  # a section that is not closed was meant to hold it
            message = f"`{port.name}` is optional and has no default, but stands outside of `$[[ ]]`"
            help_ = f"write `$[[--{port.name} {found}]]`, which vanishes without a value"
            yield RULE.problem(text.span(found.start, found.end), message, help_)
