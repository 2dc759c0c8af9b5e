"""An environment starts from an image without a tag, or from ``:latest``.

Why: The image changes under the job, and with it CUDA, NCCL and Python.

Bad::

    image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:latest

Good::

    image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:20250601.v1

Fix: Write the tag that was tested, or a digest.

Source: Docker documentation, image tags and digests.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar

RULE = Rule("WS811", "image-unpinned", "info", since="0.1.0", summary="an image without a fixed tag")


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
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
        what = "`:latest`" if tag else "no tag"
        message = f"image `{name}` has {what}, so it changes under the job"
        yield RULE.problem(node.span, message, f"write `{name}:TAG` with the tag that was tested")
