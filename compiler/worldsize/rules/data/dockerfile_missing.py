"""The folder of an environment's build has no Dockerfile.

``build.path`` names the folder, ``dockerfile_path`` the file in it; without the latter it is ``Dockerfile``.

Why: Building the image fails after the folder was uploaded.

Bad::

    path: ./plain

Good::

    path: ./context

Fix: Add the Dockerfile, or say where it lies with ``dockerfile_path``.

Source: Microsoft Learn, CLI (v2) environment YAML schema.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Component
from worldsize.azureml.references import local_path
from worldsize.base.problem import Problem
from worldsize.rules.context import Context
from worldsize.rules.data._common import folder_of
from worldsize.rules.rule import Rule
from worldsize.yaml.nodes import Mapping, Scalar

RULE = Rule(
    "WS526", "dockerfile-missing", "error", since="0.1.0", summary="a build folder without a Dockerfile"
)


@RULE.checks(Component)
def check(context: Context, component: Component) -> Iterator[Problem]:
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
        yield RULE.problem(place.span, message, "add it, or say where it lies with `dockerfile_path`")
