"""The files of an adopted script, and what a conda file that was written before lacks."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec import Struct

from worldsize.adopting.project.environment import list_local_modules, normalise, pin_environment
from worldsize.adopting.project.inputs import Input, goes_with_code, list_inputs, list_settings
from worldsize.adopting.project.spec import (
    CONDA_FILE,
    ProjectRequest,
    SpecInput,
    SpecRequest,
    describe_spec,
)
from worldsize.adopting.starting.files import IGNORED, SPEC_SCHEMA, write_ignored
from worldsize.azureml import yaml_dump
from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import describe_os_error
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import Node, Scalar, find_node, list_items
from worldsize.scripts.module import parse_text

CODE = "src"  # the folder of the script in a folder of its own


class Project(Struct, frozen=True):
    """The files by their paths below ``folder``. ``unknown`` are modules whose package is not known here."""

    folder: Path
    spec: str
    files: dict[str, bytes]
    unknown: tuple[str, ...]


def make_project(request: ProjectRequest, folder: Path, *, beside: bool) -> Project:
    """The files of a project in ``folder``; nothing is written.

    Args:
        request: What it is made from.
        folder: Where it is to be, which the spec's paths are relative to.
        beside: Whether that is the folder that the script starts from, whose files stay where they are.
    """
    adoption, script = request.adoption, request.script
    profile = adoption.profile
    source = profile.find_folder(script)
    inside = script.absolute().relative_to(source.absolute()).as_posix()
    name = request.name or name_spec(script.stem)
    local = list_local_modules(source, script.name)
    text = adoption.text.encode(adoption.encoding)
    files: dict[str, bytes] = {}
    inputs = [*list_inputs(profile, script, request.arguments, source)]
    if not beside:
        package = [] if profile.module is None else [profile.module.partition(".")[0]]
        read = dict(_read_imported(source, text, local, package))
        read |= dict(_read_settings(request, source, inputs))
        files |= {f"{CODE}/{path}": content for path, content in (read | {inside: text}).items()}
    environment = pin_environment(name.replace("_", "-"), profile, local, request.target.instance_type)
    data = request.data
    spec = describe_spec(
        SpecRequest(
            request,
            name=name,
            script=inside,
            code="." if beside else f"./{CODE}",
            environment=environment,
            data=relative_path(data, folder)
            if data is not None and profile.flag("data") is not None
            else None,
            inputs=tuple(_place_inputs(inputs, data, folder)),
        )
    )
    files[f"{name}.yml"] = yaml_dump.dump(spec, header=SPEC_SCHEMA, paragraphs="steps").encode()
    files[CONDA_FILE] = yaml_dump.dump(environment.conda).encode()
    if beside and not (folder / IGNORED).exists():
        ignored = [_name_ignored(mounted, folder) for mounted in (data, *(path.path for path in inputs))]
        files[IGNORED] = write_ignored(*filter(None, ignored)).encode()
    return Project(folder, f"{name}.yml", files, environment.unknown)


def _place_inputs(inputs: Sequence[Input], data: Path | None, folder: Path) -> Iterator[SpecInput]:
    """The inputs as a spec in ``folder`` has them; what is in the folder of the data is a part of that."""
    for mounted in inputs:
        if data is not None and data.is_dir() and mounted.path.is_relative_to(data):
            inside = mounted.path.relative_to(data).as_posix()
            yield SpecInput(mounted.flag, f"${{{{inputs.data}}}}/{inside}".removesuffix("/."))
        else:
            value = f"${{{{inputs.{mounted.name}}}}}"
            path = relative_path(mounted.path, folder)
            yield SpecInput(mounted.flag, value, mounted.name, path, mounted.path.is_file())


def _name_ignored(data: Path | None, folder: Path) -> str | None:
    """The data as the ignore file names it: it is an input, and not uploaded with the code as well."""
    path = "" if data is None else relative_path(data, folder)
    return path.removeprefix("./") or None if path.startswith("./") else None


def name_spec(text: str, prefix: str = "train") -> str:
    """A name for a spec: lower case, with underscores, and behind a prefix if it would start with a digit."""
    name = re.sub(r"\W+", "_", text.lower(), flags=re.ASCII).strip("_")
    return name if name[:1].isalpha() else f"{prefix}_{name}".rstrip("_")


def relative_path(path: Path, folder: Path) -> str:
    """A path as a spec in ``folder`` writes it, with ``./`` or ``../`` in front."""
    text = Path(os.path.relpath(path, folder)).as_posix()
    return text if text.startswith("..") else f"./{'' if text == '.' else text}"


def _read_imported(
    folder: Path, text: bytes, local: tuple[str, ...], package: list[str]
) -> Iterator[tuple[str, bytes]]:
    """The modules beside the script that it imports, and those that they import; ``own`` is its package."""
    wanted, seen = [text], set()
    while wanted:
        for module in (*package, *_list_imports(wanted.pop())):
            if module in seen or module not in local:
                continue
            seen.add(module)
            for path in _list_files(folder, module):
                content = untrusted.read_bytes(path)
                wanted.append(content)
                yield path.relative_to(folder).as_posix(), content


def _read_settings(
    request: ProjectRequest, source: Path, inputs: Sequence[Input]
) -> Iterator[tuple[str, bytes]]:
    """The small files in the folder of the code that the script names, and that are no inputs."""
    taken = {request.data, request.script.absolute(), *(mounted.path for mounted in inputs)}
    for path in list_settings(request.adoption, request.script, request.arguments):
        if path.absolute() not in taken and goes_with_code(path, source):
            yield path.resolve().relative_to(source.resolve()).as_posix(), untrusted.read_bytes(path)


def _list_files(folder: Path, module: str) -> list[Path]:
    if (folder / f"{module}.py").is_file():
        return [folder / f"{module}.py"]
    return sorted(path for path in (folder / module).rglob("*.py") if path.is_file())


def _list_imports(text: bytes) -> Iterator[str]:
    try:
        tree = parse_text(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def find_existing(folder: Path, names: Mapping[str, bytes]) -> list[str]:
    """Those of the names that exist below a folder already."""
    return [name for name in names if os.path.lexists(folder / name)]


def write_files(
    folder: Path, files: Mapping[str, bytes], replaced: Mapping[Path, tuple[bytes, bytes]] | None = None
) -> None:
    """Write all files or none.

    Args:
        folder: The folder.
        files: New files by their names below the folder.
        replaced: The content before and after of files that exist.

    Raises:
        OSError: One cannot be written, or has changed. Everything is as it was.
    """
    with contextlib.ExitStack() as undo:
        for name, content in files.items():
            path = folder / name
            for missing in reversed(
                [folder for folder in (path.parent, *path.parents) if not folder.exists()]
            ):
                missing.mkdir(exist_ok=True)
                undo.callback(_remove_empty, missing)
            write_whole(path, content, new=True)
            undo.callback(path.unlink, missing_ok=True)
        for path, (before, after) in (replaced or {}).items():
            if untrusted.read_bytes(path) != before:
                raise OSError(errno.EBUSY, "it changed in the meantime", str(path))
            write_whole(path, after)
            undo.callback(write_whole, path, before)
        undo.pop_all()


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # somebody else has put a file there
        folder.rmdir()


_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class Completed(Struct, frozen=True):
    """An environment that was written before, and what the script needs by now."""

    lines: tuple[str, ...]  # packages with their pins that it did not install
    reason: str | None  # why they could not be added
    unknown: tuple[str, ...]  # modules of no package here, which it does not name


def complete_environment(project: Project) -> Completed:
    """Add the packages that the conda file on the disk does not install."""
    lines, reason = tuple(list_missing(project).values()), None
    installed = _list_packages(yaml.load(str(project.folder / CONDA_FILE)).root)
    unknown = tuple(name for name in project.unknown if normalise(name) not in installed)
    if lines:
        before = untrusted.read_bytes(project.folder / CONDA_FILE)
        after = add_packages(before, lines)
        if after is None:
            return Completed(lines, "it has no list of pip", unknown)
        try:
            write_files(project.folder, {}, {project.folder / CONDA_FILE: (before, after)})
        except OSError as error:
            reason = describe_os_error(error)
    return Completed(lines, reason, unknown)


def list_missing(project: Project) -> dict[str, str]:
    """The packages, with their pins, that a project needs and its conda file on the disk does not install."""
    path = project.folder / CONDA_FILE
    wanted = _list_packages(yaml.load(CONDA_FILE, project.files[CONDA_FILE].decode()).root)
    packages = _list_packages(yaml.load(str(path)).root)
    if any(text.startswith("-r") for text in packages.values()):  # what else it installs is not known
        return {}
    return {
        name: text
        for name, text in wanted.items()
        if name not in packages and name != "python" and not text.startswith("-")
    }


def add_packages(content: bytes, lines: Iterable[str]) -> bytes | None:
    """A conda file with more lines at the end of its list of pip; None if it has none."""
    text = content.decode()
    listed = [line for line in _list_lines(yaml.load(CONDA_FILE, text).root)[1] if line.span.end_line]
    if not listed:
        return None
    at = listed[-1].span.line
    before = text.splitlines(keepends=True)
    dash = re.match(r"\s*-\s+", before[at - 1])
    if dash is None:
        return None
    end = "\r\n" if before[at - 1].endswith("\r\n") else "\n"
    before[at - 1] = before[at - 1].rstrip("\r\n") + end
    before[at:at] = [f"{dash[0]}{line}{end}" for line in lines]
    return "".join(before).encode()


def _list_lines(root: Node | None) -> tuple[list[Scalar], list[Scalar]]:
    """The packages of conda in a conda file, and those of pip."""
    items = list_items(find_node(root, "dependencies"))
    lines = [line for item in items for line in list_items(find_node(item, "pip"))]
    scalars = [[line for line in part if isinstance(line, Scalar)] for part in (items, lines)]
    return scalars[0], scalars[1]


def _list_packages(root: Node | None) -> dict[str, str]:
    """The packages of a conda file by their names in one spelling."""
    packages = {}
    for line in chain(*_list_lines(root)):
        name = _NAME.match(line.text.rpartition("::")[2])
        packages[normalise(name[0] if name is not None else line.text)] = line.text
    return packages
