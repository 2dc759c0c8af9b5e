"""The command starts a script that the ignore file of the code folder leaves out.

``.amlignore``, or without it ``.gitignore``, says what is not uploaded.

Why: The file is there on your machine and missing in the cloud.

Bad::

    command: python train.py

Good::

    command: python evaluate.py

Fix: Remove the pattern, or add one that starts with ``!``.

Source: Microsoft Learn, How to save and write files for experiments.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._snapshot import sought
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS525", "script-ignored", "error", since="0.1.0", summary="a script that the ignore file leaves out"
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    for found in sought(context, component):
        file = found.ignored_by
        if file is not None:
            message = f"`{found.script.name}` is left out of the upload by `{file}` of `{found.shown}`"
            help_ = f"remove the pattern from `{file}`, or add `!{found.script.name}` as its last line"
            yield RULE.problem(found.script.span, message, help_)
