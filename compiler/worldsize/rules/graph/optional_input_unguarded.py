"""The command uses an optional input outside ``$[[ ]]``."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph import _command


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for text in _command.find_texts(context, component):
        inside = {expression.start for part in text.template.sections for expression in part.expressions}
        for expression in text.template.expressions:
            port = component.inputs.get(expression.port or "") if expression.scope == "inputs" else None
            if port is None or not port.optional or port.default is not None or expression.start in inside:
                continue
            if text.template.unclosed:
                continue  # a section that is not closed was meant to hold it
            message = f"`{port.name}` is optional and has no default, but is outside `$[[ ]]`"
            help_ = f"write `$[[--{port.name} {expression}]]`, which vanishes without a value"
            yield Finding(text.span(expression.start, expression.end), message, help_)
