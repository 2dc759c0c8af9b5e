"""The build folder of an environment has no Dockerfile."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import folder_of, local_path
from worldsize.base.problem import Finding
from worldsize.rules.context import Context
from worldsize.yaml.nodes import Mapping, Scalar


def check_component(context: Context, component: Component) -> Iterator[Finding]:
    node = component.environment.node if component.environment else None
    build = node.get("build") if isinstance(node, Mapping) else None
    path = build.get("path") if isinstance(build, Mapping) else None
    if not isinstance(build, Mapping) or not isinstance(path, Scalar) or not isinstance(path.value, str):
        return
    folder = local_path(path.value, folder_of(path))
    if folder is None or not context.is_folder(folder):
        return
    named = build.get("dockerfile_path")
    name = named.value if isinstance(named, Scalar) and isinstance(named.value, str) else "Dockerfile"
    if not context.exists(folder / name):
        place = named if isinstance(named, Scalar) else path
        message = f"`{path.text}` has no `{name}` to build the image from"
        yield Finding(place.span, message, "add it, or say where it lies with `dockerfile_path`")
