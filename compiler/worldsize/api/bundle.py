"""Components as self-contained folders: their YAML, merged code and environment files; equal ones share one.

Nothing in it points outside: ``additional_includes`` are merged, the files of the environment are
copied, and the components of a pipeline component become folders beside it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, field

from worldsize.azureml import snapshot, write, yaml_dump
from worldsize.azureml.copying import Archive, CopyAccess, are_equal, hash_listed
from worldsize.azureml.model import Component, Field
from worldsize.azureml.references import classify, describe_missing, is_file, is_folder, local_path
from worldsize.azureml.snapshot import Snapshot
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.documents import yaml

CODE = "src"
ENVIRONMENT = "environment"
FILE = "component.yml"
SHORT_HASH = 8  # characters of a content hash in a version


class Bundle(Struct):
    """The files of one component folder; ``inner`` are the components its own steps refer to."""

    name: str
    document: dict[str, Any]
    gate: CopyAccess
    folder: Path  # to which the paths in the document were relative
    files: dict[str, Path | bytes | Archive] = field(default_factory=dict)
    inner: dict[str, Component] = field(default_factory=dict)  # by the inner step that uses it
    problems: list[Problem] = field(default_factory=list)


def bundle_component(
    component: Component, at: Span, gate: CopyAccess, added: Snapshot | None = None, *, changed: bool = False
) -> Bundle:
    """Collect the files of a component; ``added`` are files of the user that are added to its code.

    ``at`` is where problems without a position are reported. ``changed`` says that the component is not as
    in its file.

    Raises:
        OSError: A file that is added cannot be read.
    """
    document, folder = _document(component), component.folder
    assert folder is not None
    bundle = Bundle(_name(component), document, gate, folder)
    _take_code(bundle, component, folder, at, added)
    named = component.environment.span if component.environment is not None else None
    for block in (document, document.get("task")):
        if isinstance(block, dict) and "environment" in block:
            block["environment"] = _move_environment(bundle, block["environment"], folder, named or at)
    if component.graph is not None and isinstance(document.get("jobs"), dict):
        _take_inner(bundle, component, folder, at)
    if (changed or added is not None) and document.get("version") is not None:
        document["version"] = f"{document['version']}-{hash_content(document, added)[:SHORT_HASH]}"
    return bundle


def hash_content(document: Mapping[str, Any], code: Snapshot | None) -> str:
    """SHA-256 of a component's YAML and of files, by their places and contents: the same on any machine.

    Raises:
        OSError: A file cannot be read.
    """
    total = hashlib.sha256(yaml_dump.dump(document).encode())
    for name in code.listing() if code is not None else ():
        assert code is not None
        source = code.files[name]
        digest = (
            hashlib.sha256(source.content()).digest() if isinstance(source, Archive) else hash_listed(source)
        )
        total.update(b"\0".join((b"", os.fsencode(name), digest)))
    return total.hexdigest()


def _document(component: Component) -> dict[str, Any]:
    """The YAML of the component as plain values, in its order."""
    if component.raw is None:
        return {key: _plain(part) for key, part in write.component_document(component).items()}
    document = _plain(yaml.to_python(component.raw))  # a copy, as aliases share their values
    assert isinstance(document, dict)
    return {key: value for key, value in document.items() if key != "additional_includes"}


def _name(component: Component) -> str:
    value = component.name.value if component.name else None
    fallback = component.path.parent.name if component.path else "step"
    name = value if isinstance(value, str) and value else fallback
    return "".join(letter if letter.isalnum() or letter in "_-" else "_" for letter in name)


def _take_code(bundle: Bundle, component: Component, folder: Path, at: Span, added: Snapshot | None) -> None:
    merged, problems = snapshot.read_snapshot(component, folder, bundle.gate)
    bundle.problems += problems
    bundle.document.pop("additional_includes", None)
    for name in added.listing() if added else ():
        assert added is not None
        there = merged.files.get(name)
        if there is not None and not _are_equal(there, added.files[name]):
            message = f"`{name}` would replace a file of the component `{bundle.name}`"
            bundle.problems.append(Problem("include-clash", at, message, "rename the file or its folder"))
            continue
        merged.files[name] = added.files[name]
    _place_code(bundle, bundle.document, merged, CODE)
    task = bundle.document.get("task")
    if isinstance(task, dict) and isinstance(task.get("code"), str):
        inner = Snapshot()
        path = local_path(task["code"], folder)
        if path is not None and path.exists():
            bundle.problems += snapshot.add_to_snapshot(inner, path, at, bundle.gate)
            _place_code(bundle, task, inner, CODE)


def _are_equal(one: Path | Archive, other: Path | Archive) -> bool:
    return one == other or (isinstance(one, Path) and isinstance(other, Path) and are_equal(one, other))


def _place_code(bundle: Bundle, block: dict[str, Any], merged: Snapshot, at: str) -> None:
    """Put a snapshot into the bundle and point ``code`` of a block at it."""
    code = block.get("code")
    if isinstance(code, str) and classify(code) != "local":
        return
    if not merged.files:
        block.pop("code", None)
        return
    bundle.files.update({f"{at}/{name}": merged.files[name] for name in merged.listing()})
    if "code" in block or "command" not in block:
        block["code"] = f"./{at}"
        return
    entries = list(block.items())  # code that came from includes only: put it before the command
    block.clear()
    for key, value in entries:
        if key == "command":
            block["code"] = f"./{at}"
        block[key] = value


def _move_environment(bundle: Bundle, value: Any, folder: Path, at: Span) -> Any:
    """An environment with its files beside the component; a definition in another file is written inline."""
    if isinstance(value, str) and classify(value) == "local":
        path = local_path(value, folder)
        if path is None or not path.is_file():
            bundle.problems.append(
                describe_missing("`environment`", value, folder / value, at).under("environment-missing")
            )
            return value
        if problems := snapshot.add_to_snapshot(Snapshot(), path, at, bundle.gate):
            bundle.problems += problems
            return value
        root = yaml.load(path).root
        read = yaml.to_python(root) if root is not None else None
        if not isinstance(read, dict):
            return value
        kept = {key: part for key, part in read.items() if key in ("image", "conda_file", "build")}
        return _move_environment(bundle, kept, path.parent, at)
    if not isinstance(value, dict):
        return value
    moved = dict(value)
    if isinstance(moved.get("conda_file"), str):
        moved["conda_file"] = _copy_files(bundle, "conda_file", moved["conda_file"], folder, at)
    build = moved.get("build")
    if isinstance(build, dict) and isinstance(build.get("path"), str):
        moved["build"] = {**build, "path": _copy_files(bundle, "build.path", build["path"], folder, at)}
    return moved


def _copy_files(bundle: Bundle, key: str, reference: str, folder: Path, at: Span) -> str:
    path = local_path(reference, folder)
    if path is None:
        return reference
    if is_file(path) or is_folder(path):
        context = Snapshot()
        bundle.problems += snapshot.add_to_snapshot(context, path, at, bundle.gate)
        bundle.files.update({f"{ENVIRONMENT}/{name}": context.files[name] for name in context.listing()})
        return f"./{ENVIRONMENT}/{path.name}" if is_file(path) else f"./{ENVIRONMENT}"
    bundle.problems.append(describe_missing(f"`{key}`", reference, path, at).under("environment-missing"))
    return reference


def _take_inner(bundle: Bundle, component: Component, folder: Path, at: Span) -> None:
    """The steps of a pipeline component: local components are recorded, inline code is copied."""
    graph = component.graph
    assert graph is not None
    for name, step in graph.steps.items():
        node = bundle.document["jobs"].get(name)
        if not isinstance(node, dict) or step.component is None:
            continue
        if step.component.raw is not step.raw:  # in a file of its own, or under `component:`
            bundle.inner[name] = step.component
        else:
            merged, problems = snapshot.read_snapshot(step.component, folder, bundle.gate)
            bundle.problems += problems
            _place_code(bundle, node, merged, str(PurePosixPath(name) / CODE))
            if "environment" in node:
                node["environment"] = _move_environment(bundle, node["environment"], folder, at)


def _plain(value: Any) -> Any:
    """The values without the fields around them."""
    if isinstance(value, str):
        return value
    if isinstance(value, Field):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


Content = dict[str, Path | bytes | Archive]


class Shelf(Struct):
    """The component folders so far; equal components share one."""

    gate: CopyAccess
    out: Path  # the folder of the pipeline
    folders: dict[str, str] = field(default_factory=dict)  # digest -> folder name
    taken: set[str] = field(default_factory=set)
    files: Content = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    placed: dict[tuple[int, int], tuple[str, Component, object]] = field(default_factory=dict)


def shelve(shelf: Shelf, bundle: Bundle, step: str, variant: str | None, at: Span) -> str:
    """Give a bundle a folder, after its inner components; the name of the folder."""
    shelf.problems += bundle.problems
    for node in (bundle.document.get("jobs") or {}).values():
        relocate_inputs(node, bundle.folder, shelf.out / "components" / bundle.name)
    for inner_step, component in bundle.inner.items():
        inner = bundle_component(component, at, shelf.gate)
        name = shelve(shelf, inner, inner_step, None, at)
        key = "trial" if "trial" in bundle.document["jobs"][inner_step] else "component"
        bundle.document["jobs"][inner_step][key] = f"../{name}/{FILE}"
    text = yaml_dump.dump(bundle.document).encode()
    digest = _digest({**bundle.files, FILE: text})
    folder = shelf.folders.get(digest)
    if folder is not None:
        return folder
    name = f"{bundle.name}__{variant}" if variant else bundle.name
    if name in shelf.taken:
        name = f"{bundle.name}__{step}"
    number = 2
    while name in shelf.taken:
        name, number = f"{bundle.name}__{step}_{number}", number + 1
    shelf.folders[digest] = name
    shelf.taken.add(name)
    shelf.files[f"components/{name}/{FILE}"] = text
    shelf.files.update({f"components/{name}/{path}": source for path, source in bundle.files.items()})
    return name


def _digest(contents: Mapping[str, Path | bytes | Archive]) -> str:
    """Equal for equal folders. Of a file to copy only the path counts: reading it would double the work."""
    total = hashlib.sha256()
    for name in sorted(contents):
        source = contents[name]
        total.update(os.fsencode(name) + b"\0")
        identity = source.identity() if isinstance(source, Archive) else source
        total.update(identity if isinstance(identity, bytes) else os.fsencode(identity))
        total.update(b"\0")
    return total.hexdigest()


def relocate_inputs(block: Any, folder: Path, out: Path) -> None:
    """Make the paths of local data that a job or step is given relative to a folder of the output."""
    inputs = block.get("inputs") if isinstance(block, dict) else None
    for value in inputs.values() if isinstance(inputs, dict) else ():
        if isinstance(value, dict) and isinstance(value.get("path"), str):
            value["path"] = find_relative(value["path"], folder, out) or value["path"]


def find_relative(text: str, folder: Path, out: Path) -> str | None:
    """A local path relative to the output folder, from one relative to ``folder``; None for other places."""
    path = local_path(text, folder)
    if path is None:
        return None
    from_out = Path(os.path.relpath(os.path.realpath(path), os.path.realpath(out))).as_posix()
    return from_out if from_out.startswith("../") else f"./{from_out}"
