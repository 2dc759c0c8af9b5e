"""The folder a component's command runs in: its code merged with what it includes, as Azure ML does it.

The rules are azure-ai-ml's (``AdditionalIncludes``, ``ComponentIgnoreFile``): an include lands in the
root under its own last name; ``x.zip`` that does not exist beside a folder ``x`` is that folder
zipped; with includes every folder's ignore file counts, without only that of the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from worldsize.azureml import environment, ignore
from worldsize.azureml.ignore import Ignore
from worldsize.azureml.model import Component, Field
from worldsize.azureml.references import exists, is_file, is_folder, kind, local_path, names_in, shown
from worldsize.diagnostics.problem import Problem
from worldsize.diagnostics.system import reason
from worldsize.records import dataclass, field
from worldsize.yaml.nodes import Sequence
from worldsize.yaml.span import Span

_ROOT = PurePosixPath()
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can hold: the same bytes on any day


@dataclass(slots=True)
class Snapshot:
    """Files by their place in the folder; each is a file to copy or, for a zipped folder, its bytes."""

    files: dict[str, Path | bytes] = field(default_factory=dict)

    def listing(self) -> list[str]:
        """The places of all files, sorted, the same on every machine."""
        return sorted(self.files)

    def content(self, name: str) -> bytes:
        """The bytes of one file."""
        source = self.files[name]
        return source if isinstance(source, bytes) else source.read_bytes()

    def digest(self) -> str:
        """SHA-256 over names and bytes: equal for equal folders, wherever they lie."""
        import hashlib  # noqa: PLC0415 - `check` hashes nothing

        total = hashlib.sha256()
        for name in self.listing():
            content = self.content(name)
            total.update(f"{name}\0{len(content)}\0".encode())
            total.update(content)
        return total.hexdigest()


def of(component: Component, folder: Path) -> tuple[Snapshot, list[Problem]]:
    """The merged folder of a component.

    Args:
        component: A command component, from a file or inline.
        folder: The folder that its ``code`` and ``additional_includes`` are relative to.

    Returns:
        The snapshot, empty where there is no code, and what is wrong with its parts. Code that
        does not lie here (``azureml:``, ``git+``) yields an empty snapshot and no problem.
    """
    problems: list[Problem] = []
    code = _code(component.code, folder, problems)
    includes = list(_includes(component.additional_includes, folder, problems))
    snapshot, at = Snapshot(), component.code.span if component.code else None
    try:
        if code is not None:
            add(snapshot, code, nested=bool(includes))
        root_ignores = ignore.read(_ignoring_folder(code, folder), _ROOT)
        for source, at in includes:
            if not _clashes(source, code, at, problems):
                add_include(snapshot, source, root_ignores)
    except OSError as error:
        if at is None:
            raise
        problems.append(_unreadable(error, at))
    return snapshot, problems


def _unreadable(error: OSError, at: Span) -> Problem:
    """A folder on the way that may not be listed; none of its files is left out in silence."""
    name = PurePosixPath(str(error.filename)).name
    message = f"`{name}` below this folder cannot be read: {reason(error)}"
    return Problem("code-missing", at, message, "get the right to read it, or name another folder")


def faults(component: Component, folder: Path) -> list[Problem]:
    """What is wrong with the files a component names, found without listing any folder."""
    problems: list[Problem] = []
    code = _code(component.code, folder, problems)
    before: dict[str, Path] = {}
    for source, span in _includes(component.additional_includes, folder, problems):
        if not _clashes(source, code, span, problems):
            _repeats(source, before, span, problems)
    for found in environment.references(component.environment, folder):
        if found.span is not None and not exists(found.path):
            key, text = f"`{found.key}`", found.text
            problems.append(missing("environment-missing", key, text, found.path, found.span))
    return problems


def add(snapshot: Snapshot, code: Path, *, nested: bool = False) -> None:
    """Put a code folder's files, or a single code file, into the root of a snapshot.

    Args:
        snapshot: What to add to.
        code: The folder or file.
        nested: Whether ignore files of folders below the root count.
    """
    if is_file(code):
        snapshot.files[code.name] = code
    else:
        _collect(snapshot, code, _ROOT, (ignore.read(code, _ROOT),), nested=nested)


def add_include(snapshot: Snapshot, source: Path, root_ignores: Ignore | None = None) -> None:
    """Put a file or folder into the root of a snapshot under its own last name."""
    at = PurePosixPath(source.name)
    ignores = (root_ignores or ignore.read(None, _ROOT),)
    folder = source.with_suffix("")
    if source.suffix == ".zip" and not exists(source) and is_folder(folder):
        snapshot.files[source.name] = _zipped(folder, ignores)
    elif any(rules.excludes(at) for rules in ignores):
        return
    elif is_file(source):
        snapshot.files[source.name] = source
    else:
        _collect(snapshot, source, at, (*ignores, ignore.read(source, at)), nested=True)


def _collect(
    snapshot: Snapshot,
    folder: Path,
    at: PurePosixPath,
    ignores: tuple[Ignore, ...],
    *,
    nested: bool,
    above: frozenset[str] = frozenset(),
) -> None:
    """Add the files below a folder, links followed, except into a folder that is being listed."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are all that is wanted
        source, place = folder / name, at / name
        if any(rules.excludes(place) for rules in ignores):
            continue
        if is_folder(source):
            more = (ignore.read(source, place),) if nested else ()
            _collect(snapshot, source, place, (*ignores, *more), nested=nested, above=above | {real})
        elif is_file(source):
            snapshot.files[place.as_posix()] = source


def _zipped(folder: Path, ignores: tuple[Ignore, ...]) -> bytes:
    import io  # noqa: PLC0415 - few components include a zipped folder
    import zipfile  # noqa: PLC0415

    inner = Snapshot()
    at = PurePosixPath(folder.name)
    _collect(inner, folder, at, (*ignores, ignore.read(folder, at)), nested=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{folder.name}/", _ZIP_TIME), b"")
        for name in inner.listing():
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), inner.content(name))
    return buffer.getvalue()


def _code(code: Field[object] | None, folder: Path, problems: list[Problem]) -> Path | None:
    if code is None or not isinstance(code.value, str):
        return None
    path = local_path(code.value, folder)
    if path is None or is_file(path) or is_folder(path):
        return path
    if exists(path):  # a pipe, a socket, a device: reading one may never end
        if code.span is not None:
            message = f"`code` names `{shown(code.value)}`, which is neither a file nor a folder"
            problems.append(Problem("code-missing", code.span, message, "name the folder of the code"))
        return None
    if code.span is not None:
        problems.append(missing("code-missing", "`code`", code.value, path, code.span))
    return None


def _includes(
    includes: Field[object] | None, folder: Path, problems: list[Problem]
) -> Iterator[tuple[Path, Span | None]]:
    items = includes.value if includes is not None else None
    if not isinstance(items, list):
        return
    node = includes.node if includes is not None else None
    spans = [item.span for item in node.items] if isinstance(node, Sequence) else [None] * len(items)
    for item, span in zip(items, spans, strict=True):
        path = local_path(item, folder) if isinstance(item, str) and kind(item) == "local" else None
        if path is None:
            continue
        if is_file(path) or is_folder(path) or (path.suffix == ".zip" and is_folder(path.with_suffix(""))):
            yield path, span
        elif span is not None:
            problems.append(missing("include-missing", "`additional_includes`", item, path, span))


def _clashes(source: Path, code: Path | None, span: Span | None, problems: list[Problem]) -> bool:
    if code is None or not is_folder(code):
        return False
    there = code / source.name
    if not exists(there) or (there.is_symlink() and there.resolve() == source.resolve()):
        return False
    if span is not None:
        message = f"`{source.name}` is included, but `{code.name}` already has an entry of that name"
        help_ = "rename one of the two: an include lands in the code folder under its own last name"
        problems.append(Problem("include-clash", span, message, help_))
    return True


def _repeats(source: Path, before: dict[str, Path], span: Span | None, problems: list[Problem]) -> None:
    """Report an include that lands where an earlier one does."""
    first = before.setdefault(source.name, source)
    if first != source and span is not None:
        message = f"two includes are called `{source.name}`, and both land in the root under that name"
        problems.append(Problem("include-clash", span, message, "rename one of the two"))


def _ignoring_folder(code: Path | None, folder: Path) -> Path | None:
    """Whose ignore file counts for includes: the code folder's; without code the component's."""
    if code is None:
        return folder
    return code if is_folder(code) else None


def missing(slug: str, what: str, text: str, path: Path, span: Span) -> Problem:
    """A file or folder that is not there, with the nearest name that is."""
    from worldsize.diagnostics.suggest import closest  # noqa: PLC0415 - only a fault pays for it

    message = f"{what} names `{shown(text)}`, which does not exist"
    near = closest(path.name, names_in(path.parent))
    help_ = f"did you mean `{near}`?" if near else "the path is relative to the file that names it"
    return Problem(slug, span, message, help_)
