"""Where a script of a command would come from: the code folder, and what is included beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from worldsize.azureml import ignore
from worldsize.azureml.model import Component
from worldsize.azureml.references import kind, local_path
from worldsize.rules.context import Context
from worldsize.rules.data._common import Script, entry_scripts, folder_of, scripts
from worldsize.yaml.nodes import Scalar


class Sought(NamedTuple):
    """A script, and the folders it may lie in. ``code`` is None where the component has none."""

    script: Script
    code: Path | None
    included: tuple[Path, ...]
    shown: str  # the code as written

    def exists(self) -> bool:
        """Whether the code folder or an include has the file."""
        name = self.script.name
        if self.code is not None and (self.code / name).is_file():
            return True
        first, _, rest = name.partition("/")
        return any(path.name == first and (path / rest if rest else path).is_file() for path in self.included)

    def ignored_by(self) -> str | None:
        """The name of the ignore file of the code folder that leaves the script out."""
        if self.code is None or not (self.code / self.script.name).is_file():
            return None
        rules = ignore.read(self.code, PurePosixPath())
        path = PurePosixPath(self.script.name)
        if any(rules.excludes(part) for part in (path, *path.parents) if part.name):
            return ".amlignore" if (self.code / ".amlignore").is_file() else ".gitignore"
        return None


def sought(context: Context, component: Component) -> Iterator[Sought]:
    """The scripts that a component starts and whose absence could be told."""
    command = component.command
    if command is not None and isinstance(command.node, Scalar):
        folder = folder_of(command.node)
        code = component.code
        node = code.node if code is not None and isinstance(code.node, Scalar) else None
        if code is None or node is not None:
            included = _included(component, folder)
            for script in scripts(component):
                yield from _sought(context, script, node, folder, included)
    for script, node, folder in entry_scripts(component):
        if node is not None:
            yield from _sought(context, script, node, folder, ())


def _sought(
    context: Context, script: Script, code: Scalar | None, folder: Path, included: tuple[Path, ...]
) -> Iterator[Sought]:
    if code is None:
        yield Sought(script, None, included, "")
        return
    path = local_path(code.value, folder) if isinstance(code.value, str) else None
    if path is None or not path.exists() or not context.inside(path):
        return
    if path.is_dir():
        yield Sought(script, path, included, code.text)
    else:  # a single file is the whole snapshot
        yield Sought(script, None, (*included, path), code.text)


def _included(component: Component, folder: Path) -> tuple[Path, ...]:
    items = component.additional_includes.value if component.additional_includes else None
    texts = [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
    found = (local_path(text, folder) for text in texts if kind(text) == "local")
    return tuple(path for path in found if path is not None)


def names_in(folder: Path | None) -> list[str]:
    """The names in a folder, for a suggestion."""
    return os.listdir(folder) if folder is not None and folder.is_dir() else []  # noqa: PTH208 - names only
