"""Check, fix, check again: until nothing is left that can be fixed safely."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize import yaml
from worldsize.base.problem import Fix, Problem
from worldsize.base.span import Span
from worldsize.checking import Report, check, discover
from worldsize.diagnostics.diagnostic import sort_unique
from worldsize.fixing import edits
from worldsize.rules import engine

_ROUNDS = 10  # one fix can bring another fault to light; nothing known needs more than three
_MARK = "\ufeff".encode()


class Change(Struct):
    """A file before and after."""

    path: str
    before: bytes
    after: bytes
    seen: set[bytes] = field(default_factory=set)  # two fixes that undo each other must come to an end


class Fixed(Struct, frozen=True):
    """What became of the files: the report on what is left, and the changed files by path."""

    report: Report
    changes: tuple[Change, ...]


def fix(
    paths: Iterable[str | os.PathLike[str]],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    write: bool = True,
) -> Fixed:
    """Apply the fixes of all diagnostics that are reported for the files.

    Args:
        paths: As for :func:`worldsize.check`.
        select: Only these rules are reported, and fixed.
        ignore: These are neither.
        write: Whether the files are changed, each at once and with its mode; else only the result tells.

    Returns:
        The report after the fixes, and the changes. Files that cannot be read are left alone.

    Raises:
        ValueError: A word of ``select`` or ``ignore`` is no code or slug.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    named = frozenset(os.path.realpath(file.path) for file in discover.files(listed))
    changes: dict[str, Change] = {}
    fixed = 0
    for _ in range(_ROUNDS):
        texts = {path: change.after for path, change in changes.items()}
        report = check(listed, select=select, ignore=ignore, texts=texts)
        made = _apply_round(report, named, changes)
        fixed += made
        if not made:
            break
    changed = tuple(change for _, change in sorted(changes.items()) if change.after != change.before)
    failures = [problem for change in changed for problem in _write_change(change)] if write else []
    diagnostics = sort_unique([*report.diagnostics, *engine.diagnose(failures)])
    return Fixed(replace(report, diagnostics=tuple(diagnostics), fixed=fixed), changed)


def _apply_round(report: Report, named: frozenset[str], changes: dict[str, Change]) -> int:
    """Make the fixes of one report, not those of files that the named ones refer to; the number of edits."""
    by_path: dict[str, list[Fix]] = {}
    for diagnostic in report.diagnostics:
        if diagnostic.fix is not None and os.path.realpath(diagnostic.fix.span.path) in named:
            by_path.setdefault(diagnostic.fix.span.path, []).append(diagnostic.fix)
    made = 0
    for path, fixes in by_path.items():
        change = changes.get(path) or _read(path)
        if change is None:
            continue
        text, count = edits.apply_fixes(yaml.load(path, change.after), fixes)
        after = (_MARK if change.before.startswith(_MARK) else b"") + text.encode()
        if count and after not in change.seen:
            change.after = after
            change.seen.add(after)
            changes[path] = change
            made += count
    return made


def _read(path: str) -> Change | None:
    try:
        data = Path(path).read_bytes()
    except OSError:
        return None
    return Change(path, data, data, {data})


def _write_change(change: Change) -> list[Problem]:
    """Write one file; the problem where that fails."""
    from worldsize.fixing.apply import replace_content  # noqa: PLC0415 - a look at the differences writes nothing

    reason = replace_content(Path(change.path), change.before, change.after)
    if reason is None:
        return []
    span = Span(change.path, 1, 1, 1, 1)
    message = f"the fixes of `{change.path}` cannot be written: {reason}"
    return [Problem("output-not-written", span, message[:200], "check the rights of the file and its folder")]
