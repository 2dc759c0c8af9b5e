"""Where a script of a command would come from: the code folder, and what is included beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from worldsize.azureml import ignore, references
from worldsize.azureml.model import Component
from worldsize.azureml.references import classify, exists, is_file, is_folder, local_path
from worldsize.rules.context import Context
from worldsize.rules.data._common import Script, find_entry_scripts, find_scripts, folder_of
from worldsize.yaml.nodes import Scalar

_SUFFIXES = (".py", ".sh", ".R", ".r")


class ScriptSearch(NamedTuple):
    """A script, and the folders it may lie in. ``code`` is None where the component has none."""

    script: Script
    code: Path | None
    included: tuple[Path, ...]
    shown: str  # the code as written
    found: bool  # whether the code folder has it
    ignored_by: str | None  # the name of the ignore file that leaves it out

    def exists(self) -> bool:
        """Whether the code folder or an include has the file."""
        name = self.script.name
        if self.found:
            return True
        first, _, rest = name.partition("/")
        return any(path.name == first and is_file(path / rest if rest else path) for path in self.included)


def _look(context: Context, code: Path, name: str) -> tuple[bool, str | None]:
    """Whether a code folder has a script, and the ignore file that leaves it out; each asked once."""
    question = ("script", str(code), name)
    if question not in context.files.known:
        found = next((path for path in _forms(name) if is_file(code / path)), None)
        ignored_by = _ignore_file(code, found) if found else None
        context.files.known[question] = (found is not None, ignored_by)
    answer: tuple[bool, str | None] = context.files.known[question]  # type: ignore[assignment]
    return answer


def _forms(name: str) -> Iterator[str]:
    """The files that a name can mean: an entry script may be the name of a module."""
    yield name
    if "/" not in name and not name.endswith(_SUFFIXES):
        module = name.replace(".", "/")
        yield from (f"{module}.py", f"{module}/__init__.py")


def _ignore_file(code: Path, name: str) -> str | None:
    file = next((name for name in (".amlignore", ".gitignore") if is_file(code / name)), None)
    if file is None:
        return None
    rules = ignore.read_ignore_file(code, PurePosixPath())
    path = PurePosixPath(name)
    return file if any(rules.excludes(part) for part in (path, *path.parents) if part.name) else None


def _kind(context: Context, path: Path) -> str:
    """``folder``, ``file``, or nothing where a path does not lie in the tree; asked once."""
    question = ("code", str(path))
    if question not in context.files.known:
        kind_ = "folder" if is_folder(path) else "file" if exists(path) else ""
        context.files.known[question] = kind_ if context.inside(path) else ""
    return str(context.files.known[question])


def search_scripts(context: Context, component: Component) -> Iterator[ScriptSearch]:
    """The scripts that a component starts and whose absence could be told."""
    command = component.command
    if command is not None and isinstance(command.node, Scalar):
        folder = folder_of(command.node)
        code = component.code
        node = code.node if code is not None and isinstance(code.node, Scalar) else None
        if code is None or node is not None:
            included = _included(component, folder)
            for script in find_scripts(component):
                yield from _sought(context, script, node, folder, included)
    for script, node, folder in find_entry_scripts(component):
        if node is not None:
            yield from _sought(context, script, node, folder, ())


def _sought(
    context: Context, script: Script, code: Scalar | None, folder: Path, included: tuple[Path, ...]
) -> Iterator[ScriptSearch]:
    if code is None:
        yield ScriptSearch(script, None, included, "", found=False, ignored_by=None)
        return
    path = local_path(code.value, folder) if isinstance(code.value, str) else None
    kind_of_code = _kind(context, path) if path is not None else ""
    if path is None or not kind_of_code:
        return
    if kind_of_code == "folder":
        yield ScriptSearch(script, path, included, code.text, *_look(context, path, script.name))
    else:  # a single file is the whole snapshot
        yield ScriptSearch(script, None, (*included, path), code.text, found=False, ignored_by=None)


def _included(component: Component, folder: Path) -> tuple[Path, ...]:
    items = component.additional_includes.value if component.additional_includes else None
    texts = [item for item in items if isinstance(item, str)] if isinstance(items, list) else []
    paths = (local_path(text, folder) for text in texts if classify(text) == "local")
    return tuple(path for path in paths if path is not None)


def names_in(folder: Path | None) -> list[str]:
    """The names in a folder, for a suggestion."""
    return references.list_names(folder) if folder is not None else []
