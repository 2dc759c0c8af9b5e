"""The command of a component continues a line with a backslash."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.rules.graph import _command

_BROKEN = re.compile(r"\\[ \t]*\r?\n")


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    for text in _command.find_texts(context, component):
        backslash = _BROKEN.search(text.node.text)
        if backslash is not None and text.key == "command":
            message = "a backslash at the end of a line does not continue the command of a component"
            help_ = "write `command: >-`, which folds the lines into one, and remove the backslashes"
            yield Finding(text.span(backslash.start(), backslash.start() + 1), message, help_)
            return
