"""Changes files and no other byte of them: applies fixes until none is left, and sets values of specs."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base import untrusted
from worldsize.base.problem import Fix, Problem
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import describe_os_error
from worldsize.checking import Report, discover
from worldsize.checking.checker import check_files
from worldsize.checking.selection import EVERYTHING, Choice
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic, sort_unique
from worldsize.documents.diagnostics.snippet import flatten, show_path
from worldsize.documents.yaml import Document, Node, Scalar
from worldsize.documents.yaml import Mapping as MappingNode
from worldsize.documents.yaml import Sequence as SequenceNode
from worldsize.documents.yaml.nodes import insert_entry, lies_in
from worldsize.rules import engine
from worldsize.scripts.module import parse_text

_QUOTES = "'\""
_MARK = "\ufeff".encode()
_PARTS = (".py", ".json")  # scripts and configurations, which only jobs name
_ROUNDS = 50  # a fix can reveal another fault, and a rule can report only the first place of several
_NO_END = "\n\\ No newline at end of file\n"


class Edit(NamedTuple):
    """A replacement of ``text[start:end]``."""

    start: int
    end: int
    text: str


def apply_fixes(document: Document, fixes: Iterable[Fix]) -> tuple[str, int]:
    """Apply as many fixes as possible to a document's text, as it was checked.

    Of two overlapping fixes the one that starts first is applied; the other one follows when the result is
    checked again.

    Returns:
        The text and the number of edits. A file that cannot be parsed is not changed.
    """
    if document.root is None:
        return document.text, 0
    edits = _drop_overlaps(_select_edits(document, fixes))
    return _apply_sound(document.text, edits, lambda kept, changed: _is_sound(document, kept, changed))


def apply_script_fixes(source: Source, fixes: Iterable[Fix]) -> tuple[str, int]:
    """The same for a Python file, which must still be one afterwards."""
    if not _is_python(source.text):
        return source.text, 0
    line_end = "\r\n" if "\r\n" in source.text else "\n"
    edits = sorted(
        {
            Edit(
                source.offset(fix.span.line, fix.span.column),
                source.offset(fix.span.end_line, fix.span.end_column),
                fix.replacement.replace("\n", line_end),
            )
            for fix in fixes
        }
    )
    return _apply_sound(source.text, _drop_overlaps(edits), lambda _, changed: _is_python(changed))


def _is_python(text: str) -> bool:
    try:
        parse_text(text)
    except SyntaxError:
        return False
    return True


def _apply_sound(
    text: str, edits: list[Edit], is_sound: Callable[[list[Edit], str], bool]
) -> tuple[str, int]:
    """Apply edits, but none that changes more than it should."""
    changed = _apply_edits(text, edits)
    if is_sound(edits, changed):
        return changed, len(edits)
    kept: list[Edit] = []
    for edit in edits:
        if is_sound([*kept, edit], _apply_edits(text, [*kept, edit])):
            kept.append(edit)
    return _apply_edits(text, kept), len(kept)


def _select_edits(document: Document, fixes: Iterable[Fix]) -> list[Edit]:
    """The edits for the fixes on one line, in order, except of values that aliases repeat."""
    assert document.root is not None
    source, shared_ranges = document.source, _find_shared_ranges(document.root)
    edits = set()
    for fix in fixes:
        span = fix.span
        if span.line != span.end_line or os.path.realpath(span.path) != os.path.realpath(document.path):
            continue
        start, end = source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)
        if not any(first <= start < last for first, last in shared_ranges):
            edits.add(Edit(start, end, _quote_like(source.text[start:end], fix.replacement)))
    return sorted(edit for edit in edits if source.text[edit.start : edit.end] != edit.text)


def _quote_like(old: str, new: str) -> str:
    """Quote the replacement as the old text is quoted: ``{"typ":1}`` needs its quotes."""
    quote = old[:1]
    if quote in _QUOTES and len(old) > 1 and old.endswith(quote) and not set(new) & {*_QUOTES, "\\"}:
        return f"{quote}{new}{quote}"
    return new


def _find_shared_ranges(root: Node) -> list[tuple[int, int]]:
    """The ranges of values that several nodes share: anchors with aliases."""
    seen: set[int] = set()
    ranges: list[tuple[int, int]] = []
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            ranges.append((node.start, max(node.end, node.start + 1)))
            continue
        seen.add(id(node))
        if isinstance(node, MappingNode):
            pending += [part for entry in node.entries for part in entry]
        elif isinstance(node, SequenceNode):
            pending += node.items
    return ranges


def _drop_overlaps(edits: Sequence[Edit]) -> list[Edit]:
    chosen: list[Edit] = []
    for edit in edits:
        if not chosen or edit.start >= chosen[-1].end:
            chosen.append(edit)
    return chosen


def _apply_edits(text: str, edits: Sequence[Edit]) -> str:
    parts, position = [], 0
    for edit in edits:
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def _is_sound(document: Document, edits: Sequence[Edit], changed: str) -> bool:
    """Whether the changed text has the same scalars, apart from the edited ones."""
    after = yaml.load(document.path, changed)
    if after.root is None or len(after.scalars) != len(document.scalars):
        return False
    pending, shift = list(edits), 0
    for (start, end, _), (new_start, new_end, _) in zip(document.scalars, after.scalars, strict=True):
        while pending and pending[0].end <= start and pending[0].start < start:
            shift += len(pending[0].text) - (pending[0].end - pending[0].start)
            del pending[0]
        if new_start != start + shift:
            return False
        touched = pending and pending[0].start < end
        if not touched and document.text[start:end] != changed[new_start:new_end]:
            return False
    return True


class Change(Struct):
    """A file before and after."""

    path: str
    before: bytes
    after: bytes
    seen: set[bytes] = field(default_factory=set)  # earlier contents: fixes that undo each other must end
    edits: int = 0


class Fixed(Struct, frozen=True):
    """The result of fixing: the report on the remaining findings, and the changed files."""

    report: Report
    changes: tuple[Change, ...]
    applied: tuple[str, ...] = ()  # `path:line: fixed[CODE] message` of each finding that is gone


def fix(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    choice: Choice = EVERYTHING,
    *,
    unsafe: bool = False,
    write: bool = True,
    texts: Mapping[str, bytes] | None = None,
) -> Fixed:
    """Apply the fixes of all diagnostics of the files.

    Args:
        paths: As for :func:`worldsize.check`. Scripts and configurations are changed if they are below one of
            these folders, or if one of these files has the command that starts them.
        choice: Only what it admits is reported and fixed.
        unsafe: Whether fixes are applied that may change what the user means.
        write: Whether to change the files, each in one step; its mode stays.
        texts: Contents of files by path, which count instead of those on the disk.

    Returns:
        The report after the fixes, and the changes. Files that cannot be read are not changed.

    Raises:
        ValueError: A word of the choice is not a code or slug.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    targets = _Targets(
        frozenset(
            os.path.realpath(file.path)
            for file in discover.list_files(listed, choice.exclude)
            if file.named or _is_below(file.path, discover.find_tree(file.folder))
        ),
        tuple(os.path.realpath(path) for path in listed if Path(path).is_dir()),
    )
    changes = {path: Change(path, data, data, {data}) for path, data in (texts or {}).items()}
    met = dict[tuple[str, str, str], str]()
    for _ in range(_ROUNDS):
        content = {path: change.after for path, change in changes.items()}
        report = check_files(listed, choice, texts=content)[0]
        if not _apply_round(report, targets, changes, unsafe=unsafe):
            break
        met |= {
            _identify(diagnostic): _describe(diagnostic)
            for diagnostic in _list_fixable(report, targets, unsafe=unsafe)
        }
    changed = tuple(change for _, change in sorted(changes.items()) if change.after != change.before)
    failures = (
        {change.path: problem for change in changed for problem in _write_change(change)} if write else {}
    )
    if failures:  # what could not be written is as it was, and so are its findings
        changed = tuple(change for change in changed if change.path not in failures)
        report = check_files(listed, choice, texts={change.path: change.after for change in changed})[0]
    diagnostics = sort_unique([*report.diagnostics, *engine.diagnose(failures.values())])
    left = {_identify(diagnostic) for diagnostic in report.diagnostics}
    gone = tuple(line for key, line in met.items() if key not in left)
    fixed = sum(change.edits for change in changed)
    return Fixed(replace(report, diagnostics=tuple(diagnostics), fixed=fixed), changed, gone)


def _is_below(path: str, tree: str) -> bool:
    """Whether a file, its links resolved, is in the tree: a link out of it is not written."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(tree))


def _identify(diagnostic: Diagnostic) -> tuple[str, str, str]:
    return diagnostic.span.path, diagnostic.code, diagnostic.message


def _describe(diagnostic: Diagnostic) -> str:
    fix = diagnostic.fix
    span = fix.span if fix is not None else diagnostic.span
    return (
        f"{flatten(show_path(span.path))}:{span.line}: fixed[{diagnostic.code}] {flatten(diagnostic.message)}"
    )


def _list_fixable(report: Report, targets: _Targets, *, unsafe: bool) -> Iterator[Diagnostic]:
    """The findings whose fixes may be applied."""
    for diagnostic in report.diagnostics:
        fix = diagnostic.fix
        if fix is not None and (fix.safe or unsafe) and targets.include(diagnostic, fix.span.path):
            yield diagnostic


class _Targets(NamedTuple):
    """The files that may be changed: YAML files named or below a named folder, and the files they use."""

    files: frozenset[str]
    folders: tuple[str, ...]

    def include(self, diagnostic: Diagnostic, path: str) -> bool:
        """Whether a file may be changed for a finding."""
        real = os.path.realpath(path)
        if real in self.files or not real.endswith(_PARTS):
            return real in self.files
        return any(real.startswith(folder.rstrip(os.sep) + os.sep) for folder in self.folders) or any(
            os.path.realpath(related.span.path) in self.files for related in diagnostic.related
        )


def _apply_round(report: Report, targets: _Targets, changes: dict[str, Change], *, unsafe: bool) -> int:
    """Apply the fixes of one report, and return the number of edits."""
    by_path: dict[str, list[Fix]] = {}
    for diagnostic in _list_fixable(report, targets, unsafe=unsafe):
        assert diagnostic.fix is not None
        by_path.setdefault(diagnostic.fix.span.path, []).append(diagnostic.fix)
    applied = 0
    for path, fixes in by_path.items():
        change = changes.get(path) or _read(path)
        if change is None:
            continue
        if path.endswith(".py"):
            text, count = apply_script_fixes(Source(path, change.after.decode("utf-8-sig")), fixes)
        else:
            text, count = apply_fixes(yaml.load(path, change.after), fixes)
        after = (_MARK if change.before.startswith(_MARK) else b"") + text.encode()
        if count and after not in change.seen:
            change.after = after
            change.seen.add(after)
            changes[path] = change
            change.edits += count
            applied += count
    return applied


def _read(path: str) -> Change | None:
    try:
        data = untrusted.read_bytes(path)
    except OSError:
        return None
    return Change(path, data, data, {data})


def _write_change(change: Change) -> list[Problem]:
    """Write one file; return the problem if that fails."""
    reason = replace_content(Path(change.path), change.before, change.after)
    if reason is None:
        return []
    span = Span(change.path, 1, 1, 1, 1)
    message = f"the fixes of `{change.path}` cannot be written: {reason}"
    help_ = "check the permissions of the file and its folder"
    return [Problem("output-not-written", span, message[:200], help_)]


def unified_diff(change: Change) -> str:
    """The changes of a file as a unified diff; the byte order mark and line ends are part of the lines."""
    name = show_path(change.path)
    before, after = (data.decode().split("\n") for data in (change.before, change.after))
    lines = difflib.unified_diff(_with_line_ends(before), _with_line_ends(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else line + _NO_END for line in lines)


def _with_line_ends(lines: list[str]) -> list[str]:
    """Lines with their line feed; the last line has none if the file ends without one."""
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def replace_content(path: Path, before: bytes, after: bytes) -> str | None:
    """Replace a file's content if it has not changed since, keeping its mode.

    A link is followed and stays a link. Readers see the old content or the new content, never a part.

    Returns:
        None, or the reason why the file was not changed.
    """
    try:
        if untrusted.read_bytes(path) != before:
            return "it changed in the meantime"
        write_whole(path, after)
    except OSError as error:
        return describe_os_error(error)
    return None


class Setting(NamedTuple):
    """A value and the keys that lead to it: ``("steps", "train", "instance_count")``."""

    path: tuple[str, ...]
    value: float | str

    def shown(self) -> str:
        """``steps.train.instance_count: 2``."""
        return f"{'.'.join(self.path)}: {self.value}"


class SettingError(ValueError):
    """A value that cannot be set in the text: it is computed, shared or not a single value."""


def set_values(document: Document, settings: Sequence[Setting]) -> str:
    """The text with every value set; keys that are missing are added.

    Raises:
        SettingError: One of them cannot be set.
    """
    for setting in settings:
        document = yaml.load(document.path, _set_value(document, setting))
    return document.text


def _set_value(document: Document, setting: Setting) -> str:
    text, node = document.text, document.root
    for depth, key in enumerate(setting.path):
        if not isinstance(node, MappingNode):
            raise SettingError(f"`{'.'.join(setting.path[:depth])}` is not a mapping in the file")
        child = node.get(key)
        if child is None:
            return insert_entry(text, node, _write_entry(setting.path[depth:], setting.value))
        if not lies_in(child, node):
            raise SettingError(f"`{'.'.join(setting.path[: depth + 1])}` is shared by an alias")
        node = child
    if not isinstance(node, Scalar) or "${{" in node.text:
        raise SettingError(f"`{'.'.join(setting.path)}` is not a plain value in the file")
    if node.value == setting.value:
        return text
    return f"{text[: node.start]}{setting.value}{text[node.end :]}"


def _write_entry(path: tuple[str, ...], value: float | str) -> str:
    """``parallelism: {tensor: 2}``."""
    inner = str(value)
    for key in reversed(path[1:]):
        inner = f"{{{key}: {inner}}}"
    return f"{path[0]}: {inner}"
