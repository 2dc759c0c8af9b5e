"""Diagnostics as versioned JSON. Added keys keep the version; any other change raises it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from worldsize.base.span import Span
from worldsize.diagnostics.diagnostic import Diagnostic, count_severities
from worldsize.diagnostics.snippet import escape_controls, show_path

VERSION = 1


def render_json(diagnostics: Sequence[Diagnostic], *, files: int, fixed: int = 0) -> str:
    """The report as one JSON document; lines and columns count from 1, ends are exclusive."""
    totals = count_severities(diagnostics)
    report = {
        "version": VERSION,
        "diagnostics": [as_dict(diagnostic) for diagnostic in diagnostics],
        "summary": {
            "files": files,
            "errors": totals["error"],
            "warnings": totals["warning"],
            "infos": totals["info"],
            "fixed": fixed,
        },
    }
    return escape_controls(json.dumps(report, indent=2, ensure_ascii=False)) + "\n"


def as_dict(diagnostic: Diagnostic) -> dict[str, Any]:
    """One diagnostic with the keys of version 1."""
    return {
        "code": diagnostic.code,
        "slug": diagnostic.slug,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        **_place(diagnostic.span),
        "end_line": diagnostic.span.end_line,
        "end_column": diagnostic.span.end_column,
        "help": diagnostic.help,
        "docs": diagnostic.docs,
        "related": [{**_place(related.span), "message": related.message} for related in diagnostic.related],
    }


def _place(span: Span) -> dict[str, Any]:
    return {"path": show_path(span.path), "line": span.line, "column": span.column}
