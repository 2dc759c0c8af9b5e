"""The spec that starts a script already, where `--write` or `-o` has written it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from worldsize.adopting.model import ScriptProfile
from worldsize.adopting.project.files import Project, ProjectRequest, make_project
from worldsize.adopting.source.reading import MOST_BYTES
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Mapping, Scalar


def place_project(request: ProjectRequest) -> Project:
    """The project of a script where its spec is already, else beside the script."""
    profile, script = request.adoption.profile, request.script
    folder = profile.find_folder(script).absolute()
    spec = find_spec(profile, script)
    if spec is None:
        return make_project(request, profile.find_folder(script), beside=True)
    home = spec.parent if script.is_absolute() else Path(os.path.relpath(spec.parent))
    named = replace(request, name=spec.stem)
    return make_project(named, home, beside=spec.parent == folder)


def find_spec(profile: ScriptProfile, script: Path) -> Path | None:
    """The spec with a step that starts the script: in its folder, or in the one above, as `-o` leaves it."""
    folder = profile.find_folder(script).absolute()
    started = profile.module or script.absolute().relative_to(folder).as_posix()
    for home in (folder, folder.parent):
        for path in sorted(home.glob("*.yml")):
            if path.is_file() and path.stat().st_size <= MOST_BYTES and _starts(path, folder, started):
                return path
    return None


def _starts(path: Path, folder: Path, started: str) -> bool:
    for step in _list_steps(yaml.load(str(path)).root):
        code, command = step.get("code"), step.get("command")
        if isinstance(code, Scalar) and isinstance(command, Scalar):
            is_here = (path.parent / code.text).resolve() == folder.resolve()
            if is_here and started in command.text.split():
                return True
    return False


def _list_steps(root: Any) -> Iterator[Mapping]:
    steps = root.get("steps") if isinstance(root, Mapping) else None
    for _, step in steps.items() if isinstance(steps, Mapping) else ():
        if isinstance(step, Mapping):
            yield step
