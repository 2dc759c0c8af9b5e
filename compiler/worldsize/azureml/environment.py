"""Lists the files that an environment refers to: conda files, build contexts, environment files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from worldsize.azureml.model import Field
from worldsize.azureml.references import classify, local_path
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Node


class Reference(NamedTuple):
    """A local path that an environment refers to, and its position."""

    key: str  # conda_file, build.path, or environment for a whole file
    text: str
    path: Path
    span: Span | None


def list_references(environment: Field[Any] | None, folder: Path) -> Iterator[Reference]:
    """The local files and folders that an environment in a file of ``folder`` needs."""
    if environment is None:
        return
    value, node = environment.value, environment.node
    if isinstance(value, str):
        if is_file(value):
            yield from _reference("environment", value, folder, environment.span)
        return
    if not isinstance(value, dict):
        return
    if isinstance(value.get("conda_file"), str):
        yield from _reference("conda_file", value["conda_file"], folder, _span(node, "conda_file"))
    build = value.get("build")
    if isinstance(build, dict) and isinstance(build.get("path"), str):
        inner = node.get("build") if isinstance(node, Mapping) else None
        yield from _reference("build.path", build["path"], folder, _span(inner, "path"))


def is_file(text: str) -> bool:
    """Whether ``environment:`` names a file rather than a registered environment."""
    return text.startswith("file:") or (classify(text) == "local" and text.endswith((".yml", ".yaml")))


def _reference(key: str, text: str, folder: Path, span: Span | None) -> Iterator[Reference]:
    path = local_path(text, folder)
    if path is not None:
        yield Reference(key, text, path, span)


def _span(node: Node | None, key: str) -> Span | None:
    child = node.get(key) if isinstance(node, Mapping) else None
    return child.span if child is not None else None
