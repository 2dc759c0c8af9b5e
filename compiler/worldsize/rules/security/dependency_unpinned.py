"""A conda file lists packages without versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.azureml import environment
from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of
from worldsize.base.problem import Finding
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence
from worldsize.rules.context import Context

_PIP = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,\s.-]*\])?")
_BOUND = re.compile(r"===?|~=|<|>|!=|\s@\s|://")
_CONDA_BOUND = re.compile(r"[=<>]")


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
            name = parse_conda_name(item.text)
            if name:
                yield item.span, name
        inner = item.get("pip") if isinstance(item, Mapping) else None
        for line in inner.items if isinstance(inner, Sequence) else ():
            name = parse_pip_name(line.text) if isinstance(line, Scalar) else None
            if name:
                yield line.span, name


def parse_pip_name(text: str) -> str | None:
    """The package of a requirement without any bound on its version; None for any other line."""
    line = text.split("#", 1)[0].split(";", 1)[0].strip()
    name = _PIP.fullmatch(line)
    return None if name is None or _BOUND.search(line) or line.endswith((".txt", ".whl")) else name[0]


def parse_conda_name(text: str) -> str | None:
    """The package of a conda dependency without a version; ``pip`` itself does not count."""
    name = text.rpartition("::")[2].strip()
    return None if _CONDA_BOUND.search(name) or " " in name or name in ("pip", "") else name
