"""`code:` points outside the checked folder."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import exists, folder_of, local_path
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    node = component.code.node if component.code is not None else None
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    path = local_path(node.value, folder_of(node))
    if path is not None and exists(path) and not context.inside(path):
        message = f"`code` is `{node.value}`, which is outside the repository"
        yield Finding(node.span, message, "move it into the repository, next to this file")
