"""An environment uses an image without a tag, or with the tag `latest`."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Finding
from worldsize.documents.yaml.nodes import Mapping, Scalar
from worldsize.rules.context import Context


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    environment = component.environment.node if component.environment is not None else None
    node = environment.get("image") if isinstance(environment, Mapping) else None
    if (
        not isinstance(node, Scalar)
        or not isinstance(node.value, str)
        or "$" in node.text
        or "@" in node.text
    ):
        return
    name, _, tag = node.text.rpartition("/")[2].partition(":")
    if name and tag in ("", "latest"):
        what = "no fixed tag" if tag else "no tag"
        full = node.text.removesuffix(":latest") if tag else node.text.removesuffix(":")
        message = f"image `{node.text}` has {what}, so the job may run another image each time"
        yield Finding(node.span, message, f"write `{full}:TAG` with the tag that was tested")
