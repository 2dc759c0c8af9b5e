"""Findings as diagnostics of the protocol, and code actions: their fixes, and comments that suppress them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from lsprotocol import types

from worldsize.base.problem import Fix
from worldsize.base.source import Source
from worldsize.base.wording import shorten
from worldsize.checking.fixing import apply_fixes, apply_script_fixes, fix
from worldsize.documents import yaml
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.diagnostics.suppress import UNSUPPRESSABLE
from worldsize.lsp.analysis import Analysis
from worldsize.lsp.buffers import Buffer, Buffers, Session
from worldsize.lsp.positions import find_difference

FIX_ALL = "source.fixAll.worldsize"
_SUPPRESSION = re.compile(r"#\s*worldsize\s*:\s*ignore\s*\[(?P<codes>[^\]]*)\]")
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
_UNNECESSARY = frozenset(
    {"suppression-unused", "pipeline-input-unused", "yaml-duplicate-key", "yaml-key-repeated"}
)
_DEPRECATED = ("retired", "retiring", "deprecated")


def list_actions(session: Session, buffer: Buffer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The actions for the findings in a range of a file, also for those of specs that use it."""
    buffers, analyses = session.buffers, session.list_analyses(buffer)
    wanted = params.context.only
    actions: list[types.CodeAction] = []
    real = os.path.realpath(buffer.path)
    if _is_wanted(types.CodeActionKind.QuickFix.value, wanted):
        findings: dict[object, tuple[Diagnostic, Analysis]] = {}
        for analysis in analyses:
            for finding in _find_in_range(analysis, buffers, real, params.range):
                findings.setdefault((*finding.sort_key, finding.span), (finding, analysis))
        for finding, analysis in findings.values():
            actions += _fix(finding, analysis, buffers)
            actions += _suppress(finding, analysis, buffers)
    if _is_wanted(FIX_ALL, wanted):
        current = next((analysis for analysis in analyses if os.path.realpath(analysis.path) == real), None)
        actions += _fix_all(current, buffers) if current is not None else []
    return sorted(actions, key=lambda action: not action.is_preferred)


def _is_wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a kind, or one that contains it, was asked for."""
    names = [str(getattr(name, "value", name)) for name in only or ()]
    return not names or any(not name or f"{kind}.".startswith(f"{name}.") for name in names)


def _find_in_range(
    analysis: Analysis, buffers: Buffers, real: str, range_: types.Range
) -> Iterator[Diagnostic]:
    for finding in analysis.report.diagnostics:
        if os.path.realpath(finding.span.path) != real:
            continue
        place = buffers.positions.span_to_range(
            find_source(finding.span.path, analysis, buffers), finding.span
        )
        if place.start <= range_.end and range_.start <= place.end:
            yield finding


def _fix(finding: Diagnostic, analysis: Analysis, buffers: Buffers) -> Iterator[types.CodeAction]:
    fix_ = finding.fix
    source = find_source(fix_.span.path, analysis, buffers) if fix_ is not None else None
    if fix_ is None or source is None:
        return
    text, count = apply_one(source, fix_)
    if count:
        yield types.CodeAction(
            title=_name_fix(finding, fix_, source),
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[convert_finding(finding, analysis, buffers)],
            is_preferred=fix_.safe,
            edit=make_edit(buffers, source, text),
        )


def apply_one(source: Source, fix_: Fix) -> tuple[str, int]:
    """The text after one fix, as ``check --fix`` applies it, and the number of edits."""
    if source.path.endswith(".py"):
        return apply_script_fixes(source, [fix_])
    return apply_fixes(yaml.load(fix_.span.path, source.text), [fix_])


def _name_fix(finding: Diagnostic, fix_: Fix, source: Source) -> str:
    span = fix_.span
    old = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    removed, inserted = shorten(old, 60), shorten(fix_.replacement, 60)
    if not inserted:
        what = f"Remove `{removed}`"
    elif not removed:
        what = f"Insert `{inserted}`"
    else:
        what = f"Replace `{removed}` with `{inserted}`"
    return f"{what} ({finding.code}{'' if fix_.safe else ', may change what the job does'})"


def make_edit(buffers: Buffers, source: Source, text: str) -> types.WorkspaceEdit:
    """The edit that turns a file into a text."""
    start, end, new = find_difference(source.text, text)
    edit = types.TextEdit(buffers.positions.to_range(source, start, end), new)
    return types.WorkspaceEdit(changes={buffers.uri_of(source.path): [edit]})


def _suppress(finding: Diagnostic, analysis: Analysis, buffers: Buffers) -> Iterator[types.CodeAction]:
    """The comment that suppresses a finding in YAML; scripts have no such comments."""
    source = find_source(finding.span.path, analysis, buffers)
    if source is None or not source.path.endswith((".yml", ".yaml")):
        return
    if finding.code in UNSUPPRESSABLE or finding.slug.startswith("suppression-"):
        return
    text = add_suppression(source, finding.span.line, finding.code)
    if text is not None:
        yield types.CodeAction(
            title=f"Suppress {finding.code} on this line",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[convert_finding(finding, analysis, buffers)],
            is_preferred=False,
            edit=make_edit(buffers, source, text),
        )


def add_suppression(source: Source, line: int, code: str) -> str | None:
    """The text with a comment that suppresses a code on a line; None where no comment can stand.

    It joins a comment that suppresses other codes there. Else it stands at the end of the line, or above it
    where the end of the line is inside of a value.
    """
    document = yaml.load(source.path, source.text)
    if document.root is None:
        return None
    for comment in document.comments:
        match = _SUPPRESSION.match(comment.text)
        if match is not None and comment.span.line == line:
            at = source.offset(line, comment.span.column) + match.end("codes")
            return f"{source.text[:at]}, {code}{source.text[at:]}"
    mark = f"# worldsize: ignore[{code}]"
    content = source.line(line)
    start = source.offset(line, 1)
    end = start + len(content)
    indent = content[: len(content) - len(content.lstrip())]
    line_end = "\r\n" if "\r\n" in source.text else "\n"
    has_comment = any(comment.span.line == line for comment in document.comments)
    behind = f"{source.text[: start + len(content.rstrip())]}  {mark}{source.text[end:]}"
    above = f"{source.text[:start]}{indent}{mark}{line_end}{source.text[start:]}"
    for candidate in (above, behind) if has_comment else (behind, above):
        after = yaml.load(source.path, candidate)
        is_comment = any(comment.text == mark for comment in after.comments)
        if after.root is not None and is_comment and len(after.scalars) == len(document.scalars):
            return candidate
    return None


def _fix_all(analysis: Analysis, buffers: Buffers) -> list[types.CodeAction]:
    """All safe fixes of a file at once, until none is left."""
    fixes = (diagnostic.fix for diagnostic in analysis.report.diagnostics)
    if not any(fix is not None and fix.safe for fix in fixes):
        return []
    source = buffers.read(analysis.path)
    fixed = fix([analysis.path], write=False, texts=analysis.texts)
    real = os.path.realpath(analysis.path)
    change = next((change for change in fixed.changes if os.path.realpath(change.path) == real), None)
    if source is None or change is None:
        return []
    edit = make_edit(buffers, source, change.after.decode("utf-8-sig"))
    return [types.CodeAction(title="Apply all safe fixes of Worldsize", kind=FIX_ALL, edit=edit)]


def group_by_file(analysis: Analysis, buffers: Buffers) -> dict[str, list[types.Diagnostic]]:
    """The diagnostics of a check by the resolved path of their file."""
    grouped: dict[str, list[types.Diagnostic]] = {}
    for diagnostic in analysis.report.diagnostics:
        converted = convert_finding(diagnostic, analysis, buffers)
        grouped.setdefault(os.path.realpath(diagnostic.span.path), []).append(converted)
    return grouped


def convert_finding(finding: Diagnostic, analysis: Analysis, buffers: Buffers) -> types.Diagnostic:
    """One finding; its help follows the message on a line of its own."""
    text = f"{finding.message}\nhelp: {finding.help}" if finding.help else finding.message
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(
                buffers.uri_of(place.span.path),
                buffers.positions.span_to_range(find_source(place.span.path, analysis, buffers), place.span),
            ),
            place.message,
        )
        for place in finding.related
    ]
    source = find_source(finding.span.path, analysis, buffers)
    return types.Diagnostic(
        range=buffers.positions.span_to_range(source, finding.span),
        message=text,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(finding.docs) if finding.docs else None,
        source="worldsize",
        tags=_list_tags(finding) or None,
        related_information=related or None,
        data={"slug": finding.slug, "confidence": finding.confidence, "fix": finding.fix_safety},
    )


def find_source(path: str, analysis: Analysis, buffers: Buffers) -> Source | None:
    """The text of a file: as it is open, else as it was checked."""
    buffer = buffers.at_path(path)
    return buffer.source if buffer is not None else analysis.report.sources.get(path) or buffers.read(path)


def _list_tags(finding: Diagnostic) -> list[types.DiagnosticTag]:
    if finding.slug in _UNNECESSARY or finding.slug.endswith("-unused"):
        return [types.DiagnosticTag.Unnecessary]
    if any(word in finding.slug for word in _DEPRECATED):
        return [types.DiagnosticTag.Deprecated]
    return []
