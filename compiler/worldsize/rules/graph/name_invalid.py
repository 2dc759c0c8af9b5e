"""The name of an input or output has characters that Azure ML does not allow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph._common import NOWHERE

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_OTHER = re.compile(r"\W", re.ASCII)


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for port in [*component.inputs.values(), *component.outputs.values()]:
        if not _NAME.fullmatch(port.name):
            message = f"`{port.name}` cannot be the name of an input or output"
            better = _OTHER.sub("_", port.name)
            better = better if not better[:1].isdigit() else f"_{better}"
            yield Finding(port.span or NOWHERE, message, f"write `{better}`")
