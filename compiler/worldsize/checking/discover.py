"""Which files are checked, and what each is: told by its keys, without knowing their rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from worldsize.yaml import Document, Mapping, Scalar

Kind = Literal["spec", "job", "component", "compute", "schedule", "data", "environment", "settings"]

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".venv", "venv", ".tox", ".worldsize", "node_modules", "__pycache__"}
)
SUFFIXES = (".yml", ".yaml")
SETTINGS = ("worldsize.yml", "worldsize.yaml")

# The file name inside `$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json`.
_SCHEMA = re.compile(r"azuremlschemas\S*/(?P<name>\w+)\.schema\.json", re.IGNORECASE)
_SCHEMA_KINDS: tuple[tuple[str, Kind], ...] = (
    ("component", "component"),
    ("schedule", "schedule"),
    ("job", "job"),
    ("compute", "compute"),
    ("data", "data"),
    ("environment", "environment"),
)
_OURS = re.compile(
    r"azuremlschemas|spec\.schema\.json|^\s*(?:component|uses):|azureml:|\$\{\{\s*(?:parent|plan)\.",
    re.MULTILINE,
)
_JOB_TYPES = frozenset({"command", "pipeline", "sweep", "parallel", "spark", "automl"})
_COMPUTE_TYPES = frozenset({"amlcompute", "computeinstance", "kubernetes", "virtualmachine"})


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


def kind_of(document: Document, *, named: bool) -> Kind | None:
    """What a file is, or None where it is none of ours."""
    if os.path.basename(document.path) in SETTINGS:  # noqa: PTH119 - paths are text here
        return "settings"
    root = document.root
    if not isinstance(root, Mapping):
        return None
    by_schema = _kind_by_schema(root)
    if by_schema is not None:
        return by_schema
    if "steps" in root and "jobs" not in root and _means_a_spec(document, root, named=named):
        return "spec"
    return _kind_by_keys(root)


def looks_ours(document: Document) -> bool:
    """Whether a file that cannot be parsed was meant for Azure ML or us, so that its faults matter."""
    return _OURS.search(document.text) is not None


def _kind_by_schema(root: Mapping) -> Kind | None:
    schema = root.get("$schema")
    match = _SCHEMA.search(schema.text) if isinstance(schema, Scalar) else None
    if match is None:
        return None
    name = match["name"].lower()
    return next((kind for part, kind in _SCHEMA_KINDS if part in name), None)


def _means_a_spec(document: Document, root: Mapping, *, named: bool) -> bool:
    """Azure DevOps and others have ``steps:`` too, but as a list."""
    return named or isinstance(root.get("steps"), Mapping) or "spec.schema.json" in document.text


def _kind_by_keys(root: Mapping) -> Kind | None:
    type_ = root.get("type")
    word = type_.text.lower() if isinstance(type_, Scalar) else ""
    if "trigger" in root and "create_job" in root:
        return "schedule"
    if word in _COMPUTE_TYPES:
        return "compute"
    if word == "pipeline" or (isinstance(root.get("jobs"), Mapping) and not word and _has_steps(root)):
        return "component" if _is_component(root) else "job"
    if word in _JOB_TYPES or ("command" in root and "environment" in root and not word):
        return "component" if _is_component(root) else "job"
    return None


def _has_steps(root: Mapping) -> bool:
    """Whether ``jobs`` are Azure ML's: a GitHub workflow's have ``runs-on`` or ``uses`` and ``steps``."""
    jobs = root.get("jobs")
    assert isinstance(jobs, Mapping)
    values = [job for _, job in jobs.items() if isinstance(job, Mapping)]
    return bool(values) and all(
        ("component" in job or "command" in job) and "steps" not in job for job in values
    )


def _is_component(root: Mapping) -> bool:
    """Components declare ports; jobs have a compute, an experiment, settings, or arguments."""
    if any(key in root for key in ("compute", "experiment_name", "settings", "services")):
        return False
    if any(key in root for key in ("version", "is_deterministic", "additional_includes")):
        return True
    inputs = root.get("inputs")
    ports = [port for _, port in inputs.items()] if isinstance(inputs, Mapping) else []
    return bool(ports) and all(isinstance(port, Mapping) and "path" not in port for port in ports)
