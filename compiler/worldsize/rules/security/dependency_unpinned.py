"""A conda file lists packages without versions."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import environment
from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.rules.context import Context
from worldsize.rules.security import _packages


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    field = component.environment
    if field is None or field.node is None:
        return
    inline = field.node.get("conda_file") if isinstance(field.node, Mapping) else None
    if isinstance(inline, Mapping):
        yield from _judge(inline)
    folder = folder_of(field.node)
    for reference in environment.list_references(field, folder):
        if (
            reference.key == "conda_file"
            and context.exists(reference.path)
            and not context.is_folder(reference.path)
        ):
            yield from _judge(context.document(reference.path).root)


def _judge(root: Node | None) -> Iterator[Finding]:
    loose = list(_loose(root))
    if loose:
        span, name = loose[0]
        others = [other for _, other in loose[1:]]
        more = (
            f", nor have {len(others)} others"
            if len(others) > 1
            else f", nor has `{others[0]}`"
            if others
            else ""
        )
        message = f"`{name}` has no version{more}"
        yield Finding(
            span,
            message,
            f"write `{name}=={{version}}` with the version that was tested".replace("{version}", "VERSION"),
        )


def _loose(root: Node | None) -> Iterator[tuple[Span, str]]:
    listed = root.get("dependencies") if isinstance(root, Mapping) else None
    for item in listed.items if isinstance(listed, Sequence) else ():
        if isinstance(item, Scalar):
            name = _packages.parse_conda_name(item.text)
            if name:
                yield item.span, name
        inner = item.get("pip") if isinstance(item, Mapping) else None
        for line in inner.items if isinstance(inner, Sequence) else ():
            name = _packages.parse_pip_name(line.text) if isinstance(line, Scalar) else None
            if name:
                yield line.span, name
