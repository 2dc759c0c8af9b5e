"""``code:`` leads out of the checked folder.

Why: Another checkout of the repository lacks the folder or has another one there, and a whole home folder
is uploaded easily.

Bad::

    code: ../../../..

Good::

    code: ./src

Fix: Move the code into the repository, or include the files with ``additional_includes``.

Source: azure-ai-ml: ``code`` is uploaded with everything below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from worldsize.azureml.model import Component
from worldsize.azureml.references import exists, local_path
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Scalar

RULE = Rule("WS815", "code-outside-tree", "warning", since="0.1.0", summary="code outside of the repository")


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    node = component.code.node if component.code is not None else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    path = local_path(node.value, Path(node.source.path).parent)
    if path is not None and exists(path) and not context.inside(path):
        message = f"`code` is `{node.value}`, which lies outside of the repository"
        yield RULE.problem(node.span, message, "move it into the repository, next to this file")
