"""Builds the folder in which a component's command runs: its code and includes, merged as Azure ML does.

The rules are azure-ai-ml's (``AdditionalIncludes``, ``ComponentIgnoreFile``): an include is placed in the
root under its own last name; ``x.zip`` that does not exist beside a folder ``x`` is that folder
zipped; with includes every folder's ignore file counts, without only that of the root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml import environment, fields, ignore
from worldsize.azureml.copying import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_LOOKED_AT,
    Archive,
    CopyAccess,
    Entry,
    read_listed,
)
from worldsize.azureml.files import Files
from worldsize.azureml.ignore import Lines
from worldsize.azureml.model import Component, Field
from worldsize.azureml.references import classify, describe_missing, exists, is_file, is_folder, local_path
from worldsize.base import limits, resources
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.base.wording import describe_os_error, shorten
from worldsize.documents.yaml.nodes import Mapping, Sequence

_COPIED = (
    "a copy of a built-in component needs `components/_shared` beside its folder; a copy from the folder that"
    " `worldsize compile` writes, such as `build/components/evaluate`, needs nothing else"
)
_SHOWN = 5  # links that are reported one by one


class Snapshot(Struct):
    """Files by their path in the folder; each is a file to copy, or a folder to zip."""

    files: dict[str, Path | Archive] = field(default_factory=dict)

    def listing(self) -> list[str]:
        """The paths of all files, sorted, the same on every machine."""
        return sorted(self.files)

    def content(self, name: str, limit: int | None = None) -> bytes:
        """The bytes of one file that is not a zip, or its first ``limit``."""
        source = self.files[name]
        assert isinstance(source, Path)
        return read_listed(source, limit)


class Part(NamedTuple):
    """One folder or file that is uploaded, and the key that refers to it."""

    key: str  # code, additional_includes, or the key of an environment
    path: Path
    span: Span | None
    listing: Listing

    def problems(self, at: Span | None = None) -> Iterator[Problem]:
        """The problems that prevent copying it."""
        listed, span = self.listing, self.span or at
        if span is None:
            return
        for place, real in list(listed.outside.items())[:_SHOWN]:
            name = self.path.name if place in (".", "") else place
            yield report_outside_project(shorten(name), real, span)
        if listed.exceeded:
            message = f"`{self.path.name}` holds {listed.exceeded}, so it is not copied"
            yield Problem("too-many-files", span, message, _suggest_exclusion(listed))

    def warnings(self) -> Iterator[Problem]:
        """Followed links that lead out of the file's folder, where the end of the project is unknown."""
        if self.span is None:
            return
        for place, real in list(self.listing.beyond.items())[:_SHOWN]:
            message = f"`{shorten(place)}` is a link to `{real}`, which is outside the folder of this file"
            help_ = "it is copied: if that is right, list its folder under `allow:` in a `worldsize.yml` here"
            yield Problem("code-outside-tree", self.span, message, help_)


def report_outside_project(name: str, real: str, span: Span) -> Problem:
    """The problem of a file that is not copied; ``real`` is its path without links."""
    message = f"`{name}` is `{real}`, which is outside the project"
    help_ = "copy it into the project, or list its folder under `allow:` in `worldsize.yml`"
    return Problem("copy-outside-tree", span, message, help_)


def read_snapshot(component: Component, folder: Path, gate: CopyAccess) -> tuple[Snapshot, list[Problem]]:
    """Build the merged folder of a command component, whose paths are relative to ``folder``.

    Returns:
        The snapshot, empty where there is no code, and what is wrong with its parts. Code that
        does not lie here (``azureml:``, ``git+``) yields an empty snapshot and no problem.
    """
    problems: list[Problem] = []
    parts = _list_code_parts(component, folder, gate, problems)
    fallback_span = component.raw.span if component.raw is not None else Span(str(folder), 1, 1, 1, 1)
    for part in parts:
        problems += part.problems(fallback_span)
    snapshot = Snapshot()
    if problems:
        return snapshot, problems
    for part in parts:
        if _is_zip(part.path):
            packed = tuple(sorted(part.listing.files.items()))
            snapshot.files[part.path.name] = Archive(part.path.stem, packed)
        else:
            snapshot.files.update(part.listing.files)
    if len(parts) > 1 or any(part.key != "code" for part in parts):
        _leave_out_merged(snapshot)
    return snapshot, problems


def list_parts(component: Component, folder: Path, gate: CopyAccess) -> tuple[list[Part], list[Problem]]:
    """List what a component uploads, without reading it: code, includes, files of its environment."""
    unreadable: list[Problem] = []
    parts = _list_code_parts(component, folder, gate, [], unreadable)
    for reference in environment.list_references(component.environment, folder):
        if exists(reference.path):
            parts += _list_part(gate, reference.key, reference.path, reference.span, unreadable)
    return parts, unreadable


def check_uploads(component: Component, folder: Path, files: Files) -> list[Problem]:
    """Report uploads of a component that are outside the project, or too many.

    Another rule reports code outside of the checked tree; it is not listed.
    """
    parts, problems = list_uploads(component, folder, files)
    for part in parts:
        problems += [*part.problems(), *part.warnings()]
    return problems


def list_uploads(component: Component, folder: Path, files: Files) -> tuple[list[Part], list[Problem]]:
    """As :func:`list_parts`, cached, and without code outside of the checked tree."""
    kept = (component.code, component.additional_includes, component.environment)
    question = ("uploads", *(str(id(field)) for field in kept), str(folder))
    cached = files.known.get(question)
    if cached is None:  # the fields are kept alive, so that their ids stay unique
        parts, problems = list_parts(_drop_unreadable_code(component, folder, files), folder, files.gate)
        cached = files.known[question] = (parts, problems, kept)
    assert isinstance(cached, tuple)
    return list(cached[0]), list(cached[1])


def _drop_unreadable_code(component: Component, folder: Path, files: Files) -> Component:
    """Remove code that the check may not read from a component."""
    text = component.code.value if component.code is not None else None
    path = local_path(text, folder) if isinstance(text, str) else None
    return component if path is None or files.readable(path) else replace(component, code=None)


def _list_code_parts(
    component: Component,
    folder: Path,
    gate: CopyAccess,
    problems: list[Problem],
    unreadable: list[Problem] | None = None,
) -> list[Part]:
    """List the code and the includes; report and skip what cannot be read."""
    unreadable = problems if unreadable is None else unreadable
    code = _find_code(component.code, folder, problems)
    includes = list(_find_includes(component.additional_includes, folder, problems))
    span = component.code.span if component.code else None
    parts: list[Part] = []
    if code is not None:
        parts += _list_part(gate, "code", code, span, unreadable, merged=bool(includes))
    ignoring = _ignoring_folder(code, folder) if includes else None
    may_read = ignoring is not None and gate.allowed(os.path.realpath(ignoring))
    rules = ignore.read_ignore_file(ignoring if may_read else None)
    for source, include_span in includes:
        if _report_clash(source, code, include_span, problems):
            continue
        if rules.excludes((source.name,)) and not _is_zip(source):
            continue
        parts += _list_part(
            gate,
            "additional_includes",
            source,
            include_span,
            unreadable,
            place=source.name,
            above=rules,
            merged=True,
        )
    return parts


def _list_part(
    gate: CopyAccess,
    key: str,
    path: Path,
    span: Span | None,
    problems: list[Problem],
    *,
    place: str = "",
    above: Lines | None = None,
    merged: bool = False,
) -> list[Part]:
    """A file or folder to copy; none, and a problem, if it cannot be read."""
    try:
        if is_file(path):
            listing = list_file(gate, path, place or path.name)
        elif _is_zip(path):
            listing = list_folder(gate, path.with_suffix(""), PurePosixPath(path.stem), above)
        else:
            listing = list_folder(gate, path, PurePosixPath(place), above, merged=merged)
    except OSError as error:
        if span is None:
            raise
        problems.append(_report_unreadable(error, span))
        return []
    return [Part(key, path, span, listing)]


def _report_unreadable(error: OSError, at: Span) -> Problem:
    """Report a folder that cannot be listed, so that no file is skipped silently."""
    name = PurePosixPath(str(error.filename)).name
    message = f"`{name}` below this folder cannot be read: {describe_os_error(error)}"
    return Problem("code-missing", at, message, "allow reading it, or name another folder")


def _suggest_exclusion(listed: Listing) -> str:
    """Suggest the sub-folder with most files for exclusion from a folder that is too large."""
    heads = [place.split("/", 1)[0] for place in listed.files if "/" in place]
    if not heads:
        return "name the folder that holds the code alone"
    largest = max(sorted(set(heads)), key=heads.count)
    return f"leave `{largest}` out with an `.amlignore` in this folder, or name the folder of the code alone"


def _leave_out_merged(snapshot: Snapshot) -> None:
    """Apply the ignore file in the root of the merged folder, as the client does on upload."""
    name = next((name for name in ignore.NAMES if name in snapshot.files), None)
    if name is None:
        return
    rules = ignore.parse_ignore_file(snapshot.content(name, ignore.LARGEST))
    for place in snapshot.listing():
        if rules.excludes(PurePosixPath(place).parts):
            del snapshot.files[place]


def check_references(component: Component, folder: Path) -> list[Problem]:
    """Report faults of the files that a component refers to, without listing any folder."""
    problems: list[Problem] = []
    code = _find_code(component.code, folder, problems)
    task = component.raw.get("task") if isinstance(component.raw, Mapping) else None
    if isinstance(task, Mapping):
        _find_code(fields.read_field(task, "code"), folder, problems)
    before: dict[str, Path] = {}
    for source, span in _find_includes(component.additional_includes, folder, problems):
        if not _report_clash(source, code, span, problems):
            _report_repeated_include(source, before, span, problems)
    for reference in environment.list_references(component.environment, folder):
        if reference.span is not None and not exists(reference.path):
            finding = describe_missing(f"`{reference.key}`", reference.text, reference.path, reference.span)
            problems.append(finding.under("environment-missing"))
    return problems


def add_to_snapshot(
    snapshot: Snapshot, path: Path, span: Span, gate: CopyAccess, place: str = ""
) -> list[Problem]:
    """Add a folder's files, or a single file, to a folder of a snapshot, unless it may not be copied."""
    problems: list[Problem] = []
    above = ignore.read_ignore_file(None) if place else None
    for part in _list_part(gate, "code", path, span, problems, place=place, above=above, merged=bool(place)):
        problems += part.problems()
        snapshot.files.update({} if problems else part.listing.files)
        problems += part.warnings()
    return problems


def _is_zip(source: Path) -> bool:
    """Whether an include is a folder that the client zips: ``x.zip`` does not exist, but ``x`` does."""
    return source.suffix == ".zip" and not exists(source) and is_folder(source.with_suffix(""))


def _find_code(code: Field[object] | None, folder: Path, problems: list[Problem]) -> Path | None:
    if code is None or not isinstance(code.value, str):
        return None
    path = local_path(code.value, folder)
    if path is None or is_file(path) or is_folder(path):
        return path
    if exists(path):  # a pipe, a socket or a device, which may never end
        if code.span is not None:
            message = f"`code` names `{shorten(code.value)}`, which is neither a file nor a folder"
            problems.append(Problem("code-missing", code.span, message, "name the folder of the code"))
        return None
    if code.span is not None:
        problems.append(describe_missing("`code`", code.value, path, code.span).under("code-missing"))
    return None


def _find_includes(
    includes: Field[object] | None, folder: Path, problems: list[Problem]
) -> Iterator[tuple[Path, Span | None]]:
    items = includes.value if includes is not None else None
    if not isinstance(items, list):
        return
    node = includes.node if includes is not None else None
    spans = [item.span for item in node.items] if isinstance(node, Sequence) else [None] * len(items)
    for item, span in zip(items, spans, strict=True):
        path = local_path(item, folder) if isinstance(item, str) and classify(item) == "local" else None
        if path is None:
            continue
        if is_file(path) or is_folder(path) or _is_zip(path):
            yield path, span
        elif span is not None:
            finding = describe_missing("`additional_includes`", item, path, span)
            if (resources.components() / "_shared" / path.name).is_dir() and path.parent.name == "_shared":
                finding = replace(finding, help=_COPIED)
            problems.append(finding.under("include-missing"))


def _report_clash(source: Path, code: Path | None, span: Span | None, problems: list[Problem]) -> bool:
    if code is None or not is_folder(code):
        return False
    there = code / source.name
    if not exists(there) or (there.is_symlink() and there.resolve() == source.resolve()):
        return False
    if span is not None:
        message = f"`{source.name}` is included, but `{code.name}` already has an entry of that name"
        help_ = (
            "rename one of the two: an include is copied into the code folder under the last part of its path"
        )
        problems.append(Problem("include-clash", span, message, help_))
    return True


def _report_repeated_include(
    source: Path, before: dict[str, Path], span: Span | None, problems: list[Problem]
) -> None:
    """Report an include with the same name as an earlier one."""
    first = before.setdefault(source.name, source)
    if first != source and span is not None:
        message = f"two includes are called `{source.name}`, and both are placed in the root under that name"
        problems.append(Problem("include-clash", span, message, "rename one of the two"))


def _ignoring_folder(code: Path | None, folder: Path) -> Path | None:
    """The folder whose ignore file applies to includes: the code folder, or without code the component's."""
    if code is None:
        return folder
    return code if is_folder(code) else None


HOLDS_ITSELF = "a link to a folder that holds it"


class Listing(Struct, eq=False):
    """The files below one folder, or one file."""

    # the file with links resolved, by path in the snapshot
    files: dict[str, Path] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # of the files, in bytes
    # the target of a link that may not be copied, by path
    outside: dict[str, str] = field(default_factory=dict)
    # the target of a link that is copied although it leads out of the presumed project, by path
    beyond: dict[str, str] = field(default_factory=dict)
    # what is neither a file nor a folder, in words, by path
    left_out: dict[str, str] = field(default_factory=dict)
    exceeded: str = ""  # the limit that the folder exceeds, in words; the rest of it was not listed
    looked_at: int = 0

    def note_link(self, gate: CopyAccess, place: str, entry: Entry) -> None:
        """Remember a link that leads out of the presumed project."""
        if entry.link and entry.kind != "other" and not gate.presumed(entry.real):
            self.beyond[place] = entry.real

    def take(self, place: str, entry: Entry) -> None:
        """Add a file."""
        self.files[place] = Path(entry.real)
        self.sizes[place] = entry.size


class _Rules(NamedTuple):
    """The ignore file of a folder, and how deep the folder is in the snapshot."""

    lines: Lines
    folder: str  # links resolved
    depth: int = 0


class _Folder(Struct, frozen=True):
    """A folder to list, with the ignore files that apply."""

    real: str
    place: tuple[str, ...]
    rules: tuple[_Rules, ...]
    above: tuple[str, ...]  # the folders that hold it, links resolved


def list_file(gate: CopyAccess, path: Path, place: str) -> Listing:
    """One file as a listing."""
    listing = Listing()
    real = gate.real_paths.resolve(path)
    if gate.allowed(real):
        entry = Entry(path.name, "file", real, Path(real).stat().st_size, path.is_symlink())
        listing.note_link(gate, place, entry)
        listing.take(place, entry)
    else:
        listing.outside[place] = real
    return listing


def list_folder(
    gate: CopyAccess, folder: Path, at: PurePosixPath, above: Lines | None = None, *, merged: bool = False
) -> Listing:
    """List the files of a folder and of all folders below it.

    Args:
        gate: What may be copied.
        folder: The folder.
        at: Its place in the snapshot.
        above: The patterns of the folder that holds it in the snapshot, where that is another one.
        merged: Whether it is copied together with includes.

    Raises:
        OSError: A folder cannot be listed, or an ignore file cannot be read.
    """
    listing = Listing()
    real = gate.real_paths.resolve(folder)
    if not gate.allowed(real):
        listing.outside[at.as_posix()] = real
        return listing
    first = above or ignore.read_ignore_file(None)
    rules = (_Rules(first, os.path.dirname(real) if at.parts else real), *_own_rules(gate, real, at.parts))  # noqa: PTH120
    own_rules = rules if not at.parts else rules[1:]
    pending = [_Folder(real, at.parts, rules, ())] if not merged or _admit_folder(own_rules) else []
    while pending and not listing.exceeded:
        pending += reversed(list(_look_into(gate, pending.pop(), listing, merged=merged)))
    return listing


def _own_rules(gate: CopyAccess, real: str, at: tuple[str, ...]) -> tuple[_Rules, ...]:
    """The patterns of a folder's own ignore file; none if it is a link to a file that may not be read."""
    if not any(entry.name in ignore.NAMES for entry in gate.entries(real)):
        return ()
    file = ignore.find_ignore_file(Path(real))
    if file is None or not gate.allowed(os.path.realpath(file)):
        return ()
    return (_Rules(ignore.read_ignore_file(Path(real)), real, len(at)),)


def _admit_folder(own_rules: tuple[_Rules, ...]) -> bool:
    """Whether the client copies a folder at all: it also compares the folder's own patterns with ``.``."""
    return not any(rules.lines.excludes((".",)) for rules in own_rules)


def _look_into(  # noqa: C901 - one branch a kind of entry
    gate: CopyAccess, folder: _Folder, listing: Listing, *, merged: bool
) -> Iterator[_Folder]:
    """Add the files of one folder to the listing, and yield the folders to list next."""
    entries = gate.entries(folder.real)
    listing.looked_at += len(entries)
    gate.looked_at += len(entries)
    listing.exceeded = _exceeded(gate, folder, listing)
    if listing.exceeded:
        return
    above = (*folder.above, folder.real)
    bases = [_parts(folder.real, rules.folder) for rules in folder.rules]
    for entry in entries:
        limits.check_time()
        place = (*folder.place, entry.name)
        outside = entry.link and entry.kind != "other" and not gate.allowed(entry.real)
        if merged or outside:
            ignored = any(rules.lines.excludes(place[rules.depth :]) for rules in folder.rules)
        elif entry.kind == "folder":
            ignored = any(
                rules.lines.exclude_below(_parts(entry.real, rules.folder)) for rules in folder.rules
            )
        else:
            ignored = any(
                rules.lines.excludes((*base, entry.name))
                for rules, base in zip(folder.rules, bases, strict=True)
            )
        name = "/".join(place)
        if ignored:
            continue
        listing.note_link(gate, name, entry)
        if entry.kind == "other":
            listing.left_out[name] = entry.what
        elif outside:
            listing.outside[name] = entry.real
        elif entry.kind == "file":
            listing.take(name, entry)
        elif entry.real in above:
            listing.left_out[name] = HOLDS_ITSELF
        else:
            inner_rules = _own_rules(gate, entry.real, place) if merged else ()
            if _admit_folder(inner_rules):
                yield _Folder(entry.real, place, (*folder.rules, *inner_rules), above)


def _parts(real: str, base: str) -> tuple[str, ...]:
    """A path relative to a folder, as the client compares it with patterns; ``..`` after a link out of it."""
    if real == base:
        return ()
    if real.startswith(base + os.sep):
        return tuple(real[len(base) + 1 :].split(os.sep))  # noqa: PTH206 - texts
    return tuple(os.path.relpath(real, base).split(os.sep))  # noqa: PTH206


def _exceeded(gate: CopyAccess, folder: _Folder, listing: Listing) -> str:
    if len(folder.above) > MAX_DEPTH:
        return f"more than {MAX_DEPTH} folders in each other"
    if listing.looked_at > MAX_ENTRIES:
        return f"more than {MAX_ENTRIES:,} files and folders, links followed"
    if gate.looked_at > MAX_LOOKED_AT:
        return f"folders of more than {MAX_LOOKED_AT:,} files in all, links followed"
    return ""
