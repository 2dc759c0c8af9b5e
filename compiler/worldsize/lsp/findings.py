"""Findings as the protocol's diagnostics, with the words, places and severities of ``worldsize check``."""

from __future__ import annotations

import os
from collections.abc import Iterable

from lsprotocol import types

from worldsize.base.source import Source
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.lsp.analysis import Analysis
from worldsize.lsp.buffers import Buffers

SOURCE = "worldsize"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
_UNNECESSARY = frozenset(
    {"suppression-unused", "pipeline-input-unused", "yaml-duplicate-key", "yaml-key-repeated"}
)
_DEPRECATED = ("retired", "retiring", "deprecated")


def group_by_file(analysis: Analysis, buffers: Buffers) -> dict[str, list[types.Diagnostic]]:
    """The diagnostics of a check by the resolved path of their file."""
    grouped: dict[str, list[types.Diagnostic]] = {}
    for each in analysis.report.diagnostics:
        converted = convert_finding(each, analysis, buffers)
        grouped.setdefault(os.path.realpath(each.span.path), []).append(converted)
    return grouped


def convert_finding(finding: Diagnostic, analysis: Analysis, buffers: Buffers) -> types.Diagnostic:
    """One finding; its help follows the message on a line of its own."""
    text = f"{finding.message}\nhelp: {finding.help}" if finding.help else finding.message
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(
                buffers.uri_of(each.span.path),
                buffers.positions.span_to_range(find_source(each.span.path, analysis, buffers), each.span),
            ),
            each.message,
        )
        for each in finding.related
    ]
    source = find_source(finding.span.path, analysis, buffers)
    return types.Diagnostic(
        range=buffers.positions.span_to_range(source, finding.span),
        message=text,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(finding.docs) if finding.docs else None,
        source=SOURCE,
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


def merge_unique(groups: Iterable[list[types.Diagnostic]]) -> list[types.Diagnostic]:
    """The diagnostics of one file from the checks of several, each once."""
    unique: dict[object, types.Diagnostic] = {}
    for each in (diagnostic for group in groups for diagnostic in group):
        start, end = each.range.start, each.range.end
        key = (start.line, start.character, end.line, end.character, each.code, each.message)
        unique.setdefault(key, each)
    return list(unique.values())
