"""The code of a step is the address of a Git repository.

``code`` is a folder on your machine or a registered code asset.

Why: azure-ai-ml refuses the job after sign-in.

Bad::

    code: git+https://example.com/team/train.git

Good::

    code: ./src

Fix: Check the repository out and name its folder.

Source: azure-ai-ml, validation of ``code``.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import classify
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS528", "code-from-git", "error", since="0.1.0", summary="code given as the address of a repository"
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
    code = component.code
    if code is None or code.span is None or not isinstance(code.value, str):
        return
    if classify(code.value) == "git":
        message = f"`{code.value[:80]}` is a repository, and `code` takes a folder"
        yield RULE.problem(code.span, message, "check the repository out and name its folder")
