"""Which files are checked, and what each is: told by its keys, without knowing their rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from worldsize.yaml import Document, Mapping

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", ".tox", ".worldsize", "node_modules", "__pycache__"}
)
SUFFIXES = (".yml", ".yaml")
SETTINGS = ("worldsize.yml", "worldsize.yaml")

_OURS = re.compile(
    r"azuremlschemas|spec\.schema\.json|^\s*(?:component|uses):|azureml:|\$\{\{\s*(?:parent|plan)\.",
    re.MULTILINE,
)


class Found(NamedTuple):
    """A file to check; ``named`` where the user gave its own path, not a folder's."""

    path: str
    named: bool


def files(paths: Iterable[str | os.PathLike[str]]) -> list[Found]:
    """The YAML files at and below the paths, sorted, each once. Linked folders are not entered."""
    found: dict[str, Found] = {}
    for path in paths:
        name = os.path.normpath(os.fspath(path))
        if Path(name).is_dir():
            for file in _below(name):
                found.setdefault(file, Found(file, named=False))
        else:
            found[name] = Found(name, named=True)
    return sorted(found.values())


def _below(folder: str) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in names:
            if name.lower().endswith(SUFFIXES):
                yield os.path.normpath(os.path.join(parent, name))  # noqa: PTH118 - a Path a file is slow in big trees


def root_of(paths: Iterable[str | os.PathLike[str]]) -> Path:
    """The folder whose files belong together: the nearest with ``.git`` or ``worldsize.yml`` above the paths.

    Without one it is the working folder where that holds the paths, else their common folder.
    """
    real = [os.path.realpath(path) for path in paths] or [os.path.realpath(".")]
    try:
        common = Path(os.path.commonpath(real))
    except ValueError:  # different drives
        return Path.cwd()
    folder = common if common.is_dir() else common.parent
    for candidate in (folder, *folder.parents):
        if any((candidate / name).exists() for name in (".git", *SETTINGS)):
            return candidate
    working = Path.cwd().resolve()
    return working if working == folder or working in folder.parents else folder


def kind_of(document: Document, *, named: bool) -> str | None:
    """What a file is, or None where it is none of ours.

    Returns:
        ``spec``, ``settings`` (``worldsize.yml``), or a kind of :mod:`worldsize.azureml.shape`.
    """
    if os.path.basename(document.path) in SETTINGS:  # noqa: PTH119 - paths are text here
        return "settings"
    root = document.root
    if not isinstance(root, Mapping):
        return None
    if "steps" in root and "jobs" not in root and "$schema" not in root:
        return "spec" if _means_a_spec(document, root, named=named) else None
    from worldsize.azureml.shape import recognise  # noqa: PLC0415 - a spec alone needs none of it

    return recognise(root, document.path)


def looks_ours(document: Document) -> bool:
    """Whether a file that cannot be parsed was meant for Azure ML or us, so that its faults matter."""
    return _OURS.search(document.text) is not None


def _means_a_spec(document: Document, root: Mapping, *, named: bool) -> bool:
    """Azure DevOps and others have ``steps:`` too, but as a list."""
    return named or isinstance(root.get("steps"), Mapping) or "spec.schema.json" in document.text
