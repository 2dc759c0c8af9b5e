"""A step uses the latest version of a registered component."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Step
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Scalar
from worldsize.rules.context import Context


def check_step(context: Context, step: Step) -> Iterator[Finding]:
    node = step.reference.node if step.reference is not None else None
    if not isinstance(node, Scalar) or not node.text.startswith("azureml:"):
        return
    for ending in ("@latest", "/labels/latest"):
        if node.text.endswith(ending):
            name = node.text[: -len(ending)]
            message = f"`{ending}` runs other code as soon as a new version is registered"
            pinned = f"{name}/versions/N" if "/" in ending else f"{name}:N"
            span = node.subspan(len(name), len(node.text))
            yield Finding(span, message, f"write `{pinned}` with the version N that was tested")
