"""The minimum of an input is greater than its maximum."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import literals
from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import span_of


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for port in component.inputs.values():
        low = literals.parse_number(port.min.value) if port.min else None
        high = literals.parse_number(port.max.value) if port.max else None
        if low is not None and high is not None and low > high:
            message = f"`{port.name}` has `min` {low} above `max` {high}"
            yield Finding(span_of(port.min), message, "swap the two")
