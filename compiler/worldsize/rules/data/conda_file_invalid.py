"""The conda file of an environment is not valid."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of, is_file, local_path
from worldsize.base.problem import Finding, Related
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Scalar, Sequence


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    node = component.environment.node if component.environment else None
    named = node.get("conda_file") if isinstance(node, Mapping) else None
    if not isinstance(named, Scalar) or not isinstance(named.value, str):
        return
    path = local_path(named.value, folder_of(named))
    if path is None or not context.inside(path) or not is_file(path):
        return
    document = context.document(path)
    for fault in document.problems[:1]:
        related = (Related(fault.span, fault.message),)
        message = f"`{named.text}` cannot be read: line {fault.span.line}, {fault.message}"[:200]
        yield Finding(named.span, message, fault.help or "correct the file", related=related)
    if document.root is not None:
        wanted = document.root.get("dependencies") if isinstance(document.root, Mapping) else None
        if wanted is not None and not isinstance(wanted, Sequence):
            message = f"`{named.text}` has `dependencies` that are not a list"
            related = (Related(wanted.span, "a list of packages belongs here"),)
            help_ = "write one package a line, each after a dash"
            yield Finding(named.span, message, help_, related=related)
