"""Optional inputs outside ``$[[ ]]`` in a command, and required inputs inside it."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph import _command


def check_component(context: Context, component: Component) -> Iterator[Problem]:
    for text in _command.find_texts(context, component):
        inside = {expression.start for part in text.template.sections for expression in part.expressions}
        for expression in text.template.expressions:
            port = component.inputs.get(expression.port or "") if expression.scope == "inputs" else None
            if port is None:
                continue
            if expression.start in inside:
                if not port.optional and component.path is not None:
                    message = f"`{port.name}` is required, but only optional inputs may be inside `$[[ ]]`"
                    help_ = "take it out of the brackets, or declare it with `optional: true`"
                    span = text.span(expression.start, expression.end)
                    yield Problem("required-input-in-section", span, message, help_)
            elif port.optional and port.default is None and not text.template.unclosed:
                # a section that is not closed may have been meant to hold it
                message = f"`{port.name}` is optional and has no default, but is used outside `$[[ ]]`"
                help_ = f"write `$[[--{port.name} {expression}]]`, which is omitted if there is no value"
                span = text.span(expression.start, expression.end)
                yield Problem("optional-input-unguarded", span, message, help_)
