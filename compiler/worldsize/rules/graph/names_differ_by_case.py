"""Two inputs or two outputs of a component differ only in upper and lower case."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for side, ports in (("inputs", component.inputs), ("outputs", component.outputs)):
        first: dict[str, str] = {}
        for name, port in ports.items():
            before = first.setdefault(name.lower(), name)
            if before != name:
                earlier = ports[before].span
                related = (Related(earlier, f"`{before}` stands here"),) if earlier else ()
                message = f"the {side} `{before}` and `{name}` differ only by upper and lower case"
                yield Finding(port.span or NOWHERE, message, "rename one of the two", related=related)
