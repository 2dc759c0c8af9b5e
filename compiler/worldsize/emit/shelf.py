"""The component folders of a compiled pipeline: equal components share one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from worldsize.azureml.copying import Archive, CopyAccess
from worldsize.azureml.model import Component
from worldsize.azureml.references import local_path
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.emit import bundle as bundles
from worldsize.emit.bundle import FILE, Bundle, bundle_component

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
    text = bundles.render_component(bundle).encode()
    digest = _digest({**bundle.files, FILE: text})
    known = shelf.folders.get(digest)
    if known is not None:
        return known
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
        known = source.identity() if isinstance(source, Archive) else source
        total.update(known if isinstance(known, bytes) else os.fsencode(known))
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
