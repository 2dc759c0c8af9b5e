"""The command uses a required input inside ``$[[ ]]``."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph import _command


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    if component.path is None:
        return
    for text in _command.find_texts(context, component):
        for section in text.template.sections:
            for expression in section.expressions:
                port = component.inputs.get(expression.port or "") if expression.scope == "inputs" else None
                if port is not None and not port.optional:
                    message = f"`{port.name}` is required, and only optional inputs may stand in `$[[ ]]`"
                    help_ = "take it out of the brackets, or declare it with `optional: true`"
                    yield Finding(text.span(expression.start, expression.end), message, help_)
