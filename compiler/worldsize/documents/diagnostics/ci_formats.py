"""Diagnostics as build servers and code hosts read them: SARIF 2.1.0, GitHub annotations, JUnit XML.

Source: OASIS, "Static Analysis Results Interchange Format Version 2.1.0", 2020.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from worldsize.base.shown_text import escape_controls, mark_controls
from worldsize.base.span import Span
from worldsize.documents.diagnostics.diagnostic import Diagnostic, Severity
from worldsize.documents.diagnostics.snippet import Sources, flatten, show_path
from worldsize.documents.diagnostics.text import render_diagnostic

VERSION = 1


def render_json(
    diagnostics: Sequence[Diagnostic], *, totals: Mapping[Severity, int], files: int, fixed: int = 0
) -> str:
    """The report as one JSON document; lines and columns count from 1, ends are exclusive.

    ``totals`` counts the findings of each severity, listed or not.
    """
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
        "confidence": diagnostic.confidence,
        "fix": diagnostic.fix_safety,
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


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PRECISIONS = {"certain": "very-high", "likely": "high", "possible": "medium"}  # as code scanning sorts by


def render_sarif(diagnostics: Sequence[Diagnostic], rules: Mapping[str, Any], *, version: str) -> str:
    """One SARIF log with one run. ``rules`` has at least the rules of the codes that occur."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    index = {code: position for position, code in enumerate(codes)}
    internal = any(diagnostic.code == "WS000" for diagnostic in diagnostics)
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "worldsize",
                        "version": version,
                        "informationUri": "https://github.com/worldsize/worldsize",
                        "rules": [_rule(code, rules[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [{"executionSuccessful": not internal}],
                "results": [_result(diagnostic, index[diagnostic.code]) for diagnostic in diagnostics],
            }
        ],
    }
    return escape_controls(json.dumps(log, indent=2, ensure_ascii=False)) + "\n"


def _rule(code: str, rule: Any) -> dict[str, Any]:
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": {"text": rule.summary},
        "helpUri": rule.docs,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"precision": _PRECISIONS[rule.confidence]},
    }


def _result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    text = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": text},
        "locations": [_location(diagnostic.span)],
        "properties": {"confidence": diagnostic.confidence, "fix": diagnostic.fix_safety},
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            {"id": number, **_location(related.span), "message": {"text": related.message}}
            for number, related in enumerate(diagnostic.related)
        ]
    return result


def _location(span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    artifact = {"uri": quote(os.fsencode(show_path(span.path)))}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render_github(diagnostics: Sequence[Diagnostic]) -> str:
    """Render GitHub workflow commands, one ``::error file=…::message`` line per diagnostic."""
    return "".join(_line(diagnostic) + "\n" for diagnostic in diagnostics)


def _line(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    properties = {"file": show_path(span.path), "line": span.line, "endLine": span.end_line}
    if span.line == span.end_line:  # GitHub refuses columns on annotations over several lines
        properties |= {"col": span.column, "endColumn": max(span.column, span.end_column - 1)}
    properties["title"] = f"{diagnostic.code} {diagnostic.slug}"
    listed = ",".join(f"{key}={_escape(str(value), extra=True)}" for key, value in properties.items())
    lines = [diagnostic.message]
    lines += [f"help: {diagnostic.help}"] if diagnostic.help else []
    return f"::{_COMMANDS[diagnostic.severity]} {listed}::{_escape(chr(10).join([*lines, diagnostic.docs]))}"


def _escape(text: str, *, extra: bool = False) -> str:
    """GitHub's escapes: percent signs and line ends everywhere, colons and commas in properties."""
    text = mark_controls(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if extra else text


def render_junit(diagnostics: Sequence[Diagnostic], sources: Sources, *, files: Sequence[str]) -> str:
    """Render one JUnit suite with a test case per file; files without a finding are passing cases."""
    by_path: dict[str, list[Diagnostic]] = {path: [] for path in files}
    for diagnostic in diagnostics:
        by_path.setdefault(diagnostic.span.path, []).append(diagnostic)
    failing = sum(1 for file_diagnostics in by_path.values() if file_diagnostics)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites><testsuite name="worldsize" tests="{len(by_path)}" failures="{failing}" errors="0">',
    ]
    for path in sorted(by_path):
        lines.extend(_case(path, by_path[path], sources))
    return "\n".join([*lines, "</testsuite></testsuites>", ""])


def _case(path: str, diagnostics: list[Diagnostic], sources: Sources) -> list[str]:
    name = _attribute(show_path(path))
    if not diagnostics:
        return [f'<testcase classname="worldsize" name={name}/>']
    kinds = " ".join(sorted({diagnostic.code for diagnostic in diagnostics}))
    body = "\n".join(render_diagnostic(diagnostic, sources) for diagnostic in diagnostics)
    headline = (
        diagnostics[0].message
        if len(diagnostics) == 1
        else f"{len(diagnostics)} findings, first: {diagnostics[0].message}"
    )
    body = "\n".join(flatten(line) for line in body.split("\n"))
    return [
        f'<testcase classname="worldsize" name={name}>',
        f"<failure type={_attribute(kinds)} message={_attribute(headline)}>{escape(body)}</failure>",
        "</testcase>",
    ]


def _attribute(text: str) -> str:
    return quoteattr(flatten(text))
