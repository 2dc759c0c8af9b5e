"""Finds the environment of each step, as far as this machine can provide it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import fields, snapshot
from worldsize.azureml.copying import CopyAccess, allow_everything, read_listed
from worldsize.azureml.environment import is_file as names_a_file
from worldsize.azureml.model import Field
from worldsize.azureml.references import exists, is_file, local_path
from worldsize.azureml.snapshot import Snapshot
from worldsize.base import untrusted
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import shorten
from worldsize.documents import yaml
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.facts import curated, table
from worldsize.running.environments.docker import find_docker_fault
from worldsize.running.model.assets import AssetMap
from worldsize.running.model.options import EnvironmentMode
from worldsize.running.model.task import Task

NOWHERE = Span("environment", 1, 1, 1, 1)
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Images without packages that a script could import, apart from Python's own.
_BARE = re.compile(
    r"(?:docker\.io/)?(?:library/)?(?:python|ubuntu|debian|alpine|busybox)(?:[:@].*)?"
    r"|mcr\.microsoft\.com/(?:azureml/(?:openmpi|minimal|base|intelmpi)|mirror/docker/library/).*",
    re.IGNORECASE,
)


class Definition(Struct, frozen=True):
    """One environment."""

    name: str = ""  # how messages call it
    span: Span | None = None  # where it is named
    image: str | None = None  # the image, where the job or file says which
    context: Path | None = None  # the folder of a Dockerfile
    dockerfile: str = "Dockerfile"  # its name there
    conda: str | None = None  # the text of the conda file that the image is extended by
    requirements: tuple[str, ...] = ()  # lines for pip
    # if the requirements are those of a known image: the modules that a script must import to need them
    modules: frozenset[str] = frozenset()
    python: str | None = None  # the Python that it names, such as `3.8`; None if it names none, or a range
    unavailable: tuple[str, ...] = ()  # packages that pip is not known to have
    unknown: bool = False  # whether it contains more than can be known here

    @property
    def notices(self) -> list[str]:
        """What differs from it on this machine, one line each."""
        lines = []
        if self.python not in (None, PYTHON_VERSION):
            lines.append(
                f"{self.name}: it requires Python {self.python}, but its steps run with {PYTHON_VERSION}"
            )
        if self.unavailable:
            several = "packages" if len(self.unavailable) > 1 else "a package"
            names = ", ".join(f"`{name}`" for name in self.unavailable)
            lines.append(f"{self.name}: {names}: {several} of conda that pip may not have, left out")
        return lines


ReadDefinition = tuple[Definition, list[Problem]]


def read_definition(
    environment: Field[Any] | None, folder: Path, assets: AssetMap, gate: CopyAccess
) -> ReadDefinition:
    """Read an ``environment:`` field: the environment, and the problems of its files."""
    if environment is None:
        return Definition(), []
    value, span = environment.value, environment.span
    if isinstance(value, dict):
        title, title_span = _find_title(environment)
        return _read_mapping(value, folder, Definition(title, title_span or span), gate)
    if not isinstance(value, str):
        return Definition(), []
    start = Definition(f"`{shorten(value)}`", span)
    path = local_path(value, folder) if names_a_file(value) else assets.local(value)
    if path is not None:
        return _read_file(path, start, gate)
    packages = curated.lookup(value)
    if packages is not None:
        return replace(start, requirements=packages.requirements, modules=packages.modules), []
    return replace(start, unknown=True), []


def _read_mapping(
    value: Mapping[str, Any], folder: Path, start: Definition, gate: CopyAccess
) -> ReadDefinition:
    image, build, listed = value.get("image"), value.get("build"), value.get("conda_file")
    definition = replace(start, image=str(image) if image else None)
    if isinstance(build, dict) and isinstance(build.get("path"), str):
        context = local_path(build["path"], folder)
        dockerfile = str(build.get("dockerfile_path") or "Dockerfile")
        definition = replace(definition, context=context, dockerfile=dockerfile, unknown=True)
        if context and exists(context) and (refused := _report_forbidden(definition, context, gate)):
            return definition, refused
        if context is not None and not gate.allowed(os.path.realpath(context / dockerfile)):
            message = f"`dockerfile_path` is `{shorten(dockerfile)}`, which is outside the project"
            return start, _make_problem(start, message, "keep the Dockerfile in the build's own folder")
    if isinstance(listed, dict):
        return _read_conda(listed, folder, definition, json.dumps(listed), gate)  # JSON is YAML
    if isinstance(listed, str):
        path = local_path(listed, folder)
        if path is not None:
            return _read_file(path, definition, gate)
    if isinstance(listed, str) or (definition.image and not _BARE.fullmatch(definition.image)):
        definition = replace(definition, unknown=True)
    return definition, []


def _read_file(path: Path, start: Definition, gate: CopyAccess) -> ReadDefinition:  # noqa: PLR0911 - one a kind of file
    if not is_file(path):
        if not exists(path):
            return start, []  # reported at its reference
        help_ = "name an environment file, a conda file or a requirements file"
        return start, _make_problem(start, f"`{path.name}`, the environment {start.name}, is a folder", help_)
    if refused := _report_forbidden(start, path, gate):
        return start, refused
    if path.suffix == ".txt":
        return _expand_lines((f"-r {path.name}",), path.parent, start, gate)
    root = yaml.load(path).root
    value = fields.read_node(root).value if root is not None else None
    if isinstance(value, dict) and {"image", "build", "conda_file"} & set(value):
        return _read_mapping(value, path.parent, start, gate)
    if isinstance(value, dict) and "dependencies" in value:
        return _read_conda(value, path.parent, start, untrusted.read_text(path), gate)
    help_ = "a conda file has `dependencies:`, an environment file `image:`, `conda_file:` or `build:`"
    return start, _make_problem(
        start, f"`{path.name}` is not an environment: it names neither packages nor an image", help_
    )


def _read_conda(
    value: Mapping[str, Any], folder: Path, start: Definition, text: str, gate: CopyAccess
) -> ReadDefinition:
    definition = read_conda(value.get("dependencies"), start)
    unexpanded = replace(definition, requirements=(), conda=text)  # where a line is refused, none counts
    return _expand_lines(definition.requirements, folder, unexpanded, gate)


def _report_forbidden(definition: Definition, path: Path, gate: CopyAccess) -> list[Problem]:
    """Why a file or folder may not become part of an environment."""
    return snapshot.add_to_snapshot(Snapshot(), path, definition.span or NOWHERE, gate)


def _expand_lines(
    lines: tuple[str, ...], folder: Path, start: Definition, gate: CopyAccess
) -> ReadDefinition:
    try:
        expanded = tuple(expand_requirements(lines, folder.absolute(), gate))
        return replace(start, requirements=expanded), []
    except (OSError, UnicodeError) as error:
        name = getattr(error, "filename", None) or "a requirements file"
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        message = f"{start.name}: `{name}` cannot be read: {str(reason).lower()}"
        return start, _make_problem(
            start, message, "correct the path; it is relative to the file that names it"
        )


def _make_problem(definition: Definition, message: str, help_: str) -> list[Problem]:
    return [Problem("run-refused", definition.span or NOWHERE, message, help_)]


def _find_title(environment: Field[Any]) -> tuple[str, Span | None]:
    """How messages call an environment that has no name of its own, and the position of what they name."""
    listed, image = (fields.read_member(environment, name) for name in ("conda_file", "image"))
    for part in (listed, image, fields.read_member(fields.read_member(environment, "build"), "path")):
        if part is not None and part is listed and isinstance(part.value, dict):
            return "`conda_file`", part.key_span
        if part is not None and isinstance(part.value, str):
            return f"`{shorten(part.value)}`", part.span
    return "the conda file", None


SCRIPTS = (".py", ".ipynb", ".sh", ".r", ".R")
LARGEST_SCRIPT = 1 << 20  # bytes; a longer script was not written by hand
LONGEST_LIST = 3  # steps named in a notice


class EnvironmentPlan(Struct, frozen=True):
    """The environments of a run."""

    mode: EnvironmentMode = "current"  # how they are provided on this machine
    definitions: Mapping[str, Definition] = field(default_factory=dict)  # by step
    notices: tuple[str, ...] = ()  # differences to Azure ML, one line each
    problems: tuple[Problem, ...] = ()  # why the run cannot begin
    sources: Sources = field(default_factory=dict)  # the texts that problems point into

    def find_definition(self, step: str) -> Definition:
        """The environment of a step; a step that another expanded into has that of the other."""
        name = step
        while name not in self.definitions and "." in name:
            name = name.rpartition(".")[0]
        return self.definitions.get(name, Definition())


def plan_environments(
    tasks: Mapping[str, Task],
    code: Mapping[str, Snapshot],
    assets: AssetMap,
    mode: EnvironmentMode,
    sources: Sources,
    *,
    gate: CopyAccess,
) -> EnvironmentPlan:
    """Read the environment of every step. ``mode`` says what they are to be here."""
    if mode == "current":
        return EnvironmentPlan(mode)
    definitions: dict[str, Definition] = {}
    problems: list[Problem] = []
    for name, task in tasks.items():
        definition, more = read_definition(task.component.environment, task.folder, assets, gate)
        modules = definition.modules if mode == "isolated" else ()
        if modules and not _imports(definition.modules, task, code.get(name)):
            definition = replace(definition, requirements=(), modules=frozenset())
        definitions[name] = definition
        problems += [problem for problem in more if problem not in problems]
    problems += assets.problems
    if mode == "docker":
        problems += _report_uncontained(tasks, definitions)
    notices = tuple(_notices(definitions)) if mode == "isolated" else ()
    return EnvironmentPlan(mode, definitions, notices, tuple(problems), sources)


def _imports(modules: frozenset[str], task: Task, code: Snapshot | None) -> bool:
    names = "|".join(map(re.escape, sorted(modules)))
    pattern = re.compile(rf"(?:\bimport|\bfrom|,|-m)\s+(?:{names})\b")
    return any(pattern.search(text) for text in (task.command, *_texts(code)))


def _texts(code: Snapshot | None) -> Iterator[str]:
    for name, source in code.files.items() if code is not None else ():
        if name.endswith(SCRIPTS) and isinstance(source, Path):
            with contextlib.suppress(untrusted.UnreadableError):  # a large one holds data
                yield untrusted.read_text(source, LARGEST_SCRIPT, errors="replace")


def _notices(definitions: Mapping[str, Definition]) -> Iterator[str]:
    """One line for each difference, however many steps have it."""
    yield from dict.fromkeys(line for definition in definitions.values() for line in definition.notices)
    unknown: dict[str, list[str]] = {}
    for step, definition in definitions.items():
        if definition.unknown and not definition.requirements:
            unknown.setdefault(definition.name, []).append(step)
    for name, steps in unknown.items():
        more = f" and {len(steps) - LONGEST_LIST} more" if len(steps) > LONGEST_LIST else ""
        listed = ", ".join(steps[:LONGEST_LIST]) + more
        yield f"{name} ({listed}): the packages of its image are unknown, so those installed here are used"


def _report_uncontained(
    tasks: Mapping[str, Task], definitions: Mapping[str, Definition]
) -> Iterator[Problem]:
    """Report why steps cannot run in containers; without an engine, only that."""
    first = next((definition.span for definition in definitions.values() if definition.span), NOWHERE)
    reason = find_docker_fault()
    if reason is not None:
        help_ = "start a Docker engine, or use `--environment isolated`"
        yield Problem("run-refused", first, f"`--environment docker` is not possible here: {reason}", help_)
        return
    reported_spans = set()
    for name, definition in definitions.items():
        span = definition.span or first
        if tasks[name].launcher == "mpi":
            message = f"step `{name}` is distributed with `mpi`, which is not run in containers here"
            yield Problem("run-refused", span, message, "take `--environment isolated`")
        elif definition.image is None and definition.context is None and span not in reported_spans:
            reported_spans.add(span)
            message = f"{definition.name or f'step `{name}`'} names no image"
            help_ = "map it to an environment file with `image:`, or use `--environment isolated`"
            yield Problem("run-refused", span, message, help_)


PROVIDED = frozenset({"pip", "wheel"})  # those of this machine are used

_DEPENDENCY = re.compile(r"(?:[^\s:]+::)?(?P<name>[\w.-]+)\s*(?P<version>.*)", re.DOTALL)
_EXACT = re.compile(r"(?:={1,2}\s*|(?=\d))(?P<version>\d[^\s=,*|]*)(?:[=\s]\s*[^\s=]+)?")
_FUZZY = re.compile(r"={0,2}\s*(?P<version>\d[^\s=,*|]*?)\.?\*?")
_RANGE = re.compile(r"(?:(?:>=|<=|!=|==|~=|<|>)\s*\d[\w.!+]*\s*(?:,\s*)?)+")
_PYTHON = re.compile(r"={0,2}\s*(?P<version>\d+\.\d+)\b")

_INCLUDE = re.compile(r"(?:-r\s*|--requirement[\s=]\s*)(?P<path>\S.*)")
_CONSTRAINT = re.compile(r"(?:-c\s*|--constraint[\s=]\s*)(?P<path>\S.*)")
_EDITABLE = re.compile(r"(?:-e\s*|--editable[\s=]\s*)(?P<path>\S.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_ARCHIVE = re.compile(r"\S+\.(?:whl|zip|tar\.gz)")
# A line that is a path, options with a path, and `file:` addresses alone or after `name @`.
_LOCAL = re.compile(
    r"^(?:-[ce]\s*|(?:--find-links|-f|--index-url|-i|--extra-index-url)[\s=]\s*)?(?P<path>/[^;]*)"
    r"|(?:^|[\s=+@])file:(?://(?:localhost)?)?(?P<url>/[^\s;#]*)"
)
# Pip quotes files that it cannot parse: without a project boundary only files with these suffixes are read.
_SUFFIXES = frozenset({".txt", ".in", ".lock", ".pip", ".whl", ".zip", ".gz", ".bz2", ".tgz"})
_SKIPPED = frozenset({".git", ".venv", "__pycache__", "build", ".worldsize"})


def read_conda(dependencies: Any, start: Definition) -> Definition:
    """Read ``dependencies:`` of a conda file, a list of texts and of mappings with ``pip:``."""
    lines: list[str] = []
    left: list[str] = []
    python: str | None = None
    for item in dependencies if isinstance(dependencies, list) else []:
        if isinstance(item, dict):
            pip = item.get("pip")
            lines += [str(line) for line in pip if line is not None] if isinstance(pip, list) else []
            continue
        match = _DEPENDENCY.fullmatch(str(item).strip())
        name, version = (match["name"].lower(), match["version"]) if match else (str(item), "")
        if name == "python":
            exact = _PYTHON.match(version)
            python = exact["version"] if exact else None
        elif name not in PROVIDED:
            package = _read_conda_names().get(name)
            bound = _convert_bound(version.strip())
            if package is None or bound is None:
                left.append(str(item))
            else:
                lines.append(package + bound)
    return replace(start, requirements=tuple(lines), python=python, unavailable=tuple(left))


def _convert_bound(version: str) -> str | None:
    """Conda's bound on a version as pip writes it; None if pip has no such bound.

    ``1.2`` and ``==1.2`` are that version, ``=1.2`` is any ``1.2.x``, and a build is dropped.
    """
    if not version or version in ("*", "=*"):
        return ""
    if _RANGE.fullmatch(version) and not version.startswith("=="):
        return re.sub(r"\s", "", version).rstrip(",")
    fuzzy = _FUZZY.fullmatch(version)
    if fuzzy and ("*" in version or (version.startswith("=") and not version.startswith("=="))):
        return f"=={fuzzy['version']}.*"
    exact = _EXACT.fullmatch(version)
    return f"=={exact['version']}" if exact else None


@cache
def _read_conda_names() -> dict[str, str]:
    return {row["conda"]: row["pip"] for row in table.read_rows("conda_names")}


def expand_requirements(
    lines: Iterable[str], folder: Path, gate: CopyAccess, seen: frozenset[Path] = frozenset()
) -> Iterator[str]:
    """Yield the lines of a requirements file or of a conda file's pip section, without comments.

    Included files, as far as the gate allows them, are expanded; ``seen`` are those that include this one.

    Raises:
        OSError: an included file cannot be read, or may not be.
    """
    for line in "\n".join(lines).replace("\\\n", " ").split("\n"):
        text = _COMMENT.sub("", line).strip()
        included = _INCLUDE.fullmatch(text)
        if included:
            name = _unquote(included["path"])
            if name.startswith("file:"):
                name = unquote(re.sub(r"^file:(?://(?:localhost)?(?=/))?", "", name))
            path = Path(os.path.normpath(folder / name))
            if path not in seen:
                inner = read_listed(_require_allowed(path, gate)).decode("utf-8-sig").split("\n")
                yield from expand_requirements(inner, path.parent, gate, seen | {path})
        elif text:
            absolute = _make_absolute(text, folder)
            named = _find_local_path(absolute)
            if named is not None:
                _require_allowed(named, gate)
            yield absolute


def digest_requirements(lines: Iterable[str]) -> str:
    """SHA-256 over the lines and the contents of the files and folders of this machine that they name."""
    total = hashlib.sha256()
    for line in lines:
        path = _find_named_path(line)
        shown = line if path is None else line.replace(str(path), path.name)
        total.update(f"{shown}\0".encode())
        if path is not None:
            for file in [path] if path.is_file() else sorted(_list_files(path)):
                total.update(f"{file.relative_to(path) if file != path else file.name}\0".encode())
                with untrusted.open_file(file) as opened:
                    total.update(untrusted.hash_rest(opened))
    return total.hexdigest()


def _require_allowed(path: Path, gate: CopyAccess) -> Path:
    """Resolve a file that another one names.

    Pip shows lines that it cannot parse, so only files of the project are allowed.

    Raises:
        OSError: It is not there, or is outside the project.
    """
    real = Path(os.path.realpath(path))
    allowed = gate.allowed(real)
    if gate.allowed is allow_everything:  # there is no project boundary
        allowed = real.is_dir() or real.suffix in _SUFFIXES
    if allowed or not path.exists():
        return real
    raise OSError(errno.EACCES, "it is outside the project", str(path))


def _make_absolute(text: str, folder: Path) -> str:
    for pattern, option in ((_CONSTRAINT, "-c "), (_EDITABLE, "-e ")):
        match = pattern.fullmatch(text)
        if match:
            path = _unquote(match["path"])
            return text if "://" in path else f"{option}{os.path.normpath(folder / path)}"
    if text.startswith(("./", "../", "/")) or text in (".", "..") or _ARCHIVE.fullmatch(text):
        return text if "://" in text or "@" in text else os.path.normpath(folder / text)
    return text


def _find_local_path(line: str) -> Path | None:
    """The local path that a line makes pip read, whether it exists or not."""
    match = _LOCAL.search(line)
    if match is None:
        return None
    text = unquote(match["url"]) if match["url"] else match["path"]
    path, bracket, extras = _unquote(text).rpartition("[")
    return Path(path if bracket and extras.endswith("]") and "/" not in extras else _unquote(text))


def _find_named_path(line: str) -> Path | None:
    text = re.sub(r"^-[ce] ", "", line)
    text = text.partition("[")[0] if text.endswith("]") else text
    path = Path(text)
    return path if path.is_absolute() and path.exists() else None


def _list_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.endswith(".egg-info")]
        paths = (Path(parent, name) for name in names if not name.endswith(".pyc"))
        yield from (path for path in paths if path.is_file())  # opening a pipe would block


def _unquote(path: str) -> str:
    return path.strip().strip("\"'")
