"""Recognises an unchanged copy of a built-in component, as the folder of a compiled pipeline holds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from worldsize.azureml import snapshot
from worldsize.azureml.component import load_component
from worldsize.azureml.copying import CopyAccess, are_equal
from worldsize.azureml.files import Files
from worldsize.azureml.model import Component
from worldsize.base import resources
from worldsize.documents import yaml


def is_unchanged_copy(component: Component, files: Files) -> bool:
    """Whether a component says what a built-in one says, and its code and environment are the same bytes."""
    name = component.name.value if component.name is not None else None
    original = load_component(resources.component_file(str(name)), files)
    if original is None or _read_version(component) != _read_version(original):
        return False  # the usual case of an old copy, which needs no comparison of files
    if _leave_out_paths(component) != _leave_out_paths(original):
        return False
    gate = CopyAccess()
    try:
        one, other = _list_files(component, gate), _list_files(original, gate)
        if one.keys() != other.keys() or not files.texts.keys().isdisjoint(one.values()):
            return False  # an editor holds a file that is not saved yet
        return all(are_equal(path, other[key]) for key, path in one.items())
    except OSError:
        return False


def _read_version(component: Component) -> object:
    return component.version.value if component.version is not None else None


def _leave_out_paths(component: Component) -> dict[str, Any] | None:
    """The YAML of a component without the paths that compiling moves."""
    document = yaml.to_python(component.raw) if component.raw is not None else None
    if not isinstance(document, dict):
        return None
    kept = {key: part for key, part in document.items() if key not in ("code", "additional_includes")}
    environment = kept.get("environment")
    if isinstance(environment, dict):
        build = environment.get("build")
        moved = {"conda_file": None, "build": {**build, "path": None} if isinstance(build, dict) else build}
        kept["environment"] = {**environment, **moved}
    return kept


def _list_files(component: Component, gate: CopyAccess) -> dict[str, Path]:
    """The files of a component's code and environment, by what they are for."""
    folder = component.folder
    assert folder is not None
    code, _ = snapshot.read_snapshot(component, folder, gate)
    listed = {f"code {name}": path for name, path in code.files.items() if isinstance(path, Path)}
    for part in snapshot.list_parts(replace(component, code=None, additional_includes=None), folder, gate)[0]:
        listed |= {f"{part.key} {name}": path for name, path in part.listing.files.items()}
    return listed
