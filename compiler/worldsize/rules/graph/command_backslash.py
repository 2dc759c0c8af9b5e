"""The command of a component goes on after a backslash at the end of a line.

Azure ML does not support broken lines in the command of a component.

Why: The rest of the command is lost or run as a command of its own.

Bad::

    command: |

Good::

    command: >-

Fix: Write ``>-``, which folds the lines into one, and remove the backslashes.

Source: Microsoft Learn, CLI (v2) command component YAML schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.graph import _command
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS645",
    "command-backslash",
    "error",
    since="0.1.0",
    summary="a backslash at the end of a line of a command",
)


_BROKEN = re.compile(r"\\[ \t]*\r?\n")


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    for text in _command.texts(context, component):
        found = _BROKEN.search(text.node.text)
        if found is not None and text.key == "command":
            message = "a backslash at the end of a line does not continue the command of a component"
            help_ = "write `command: >-`, which folds the lines into one, and remove the backslashes"
            yield RULE.problem(text.span(found.start(), found.start() + 1), message, help_)
            return
