"""The code of a step is the URL of a Git repository."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import classify
from worldsize.base.problem import Finding
from worldsize.rules.context import Context


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    code = component.code
    if code is None or code.span is None or not isinstance(code.value, str):
        return
    if classify(code.value) == "git":
        message = f"`{code.value[:80]}` is a Git repository, but `code` takes a local folder"
        yield Finding(code.span, message, "clone the repository and name its local folder")
