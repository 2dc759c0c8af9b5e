"""Diagnostics as SARIF 2.1.0, which code-scanning services read.

Source: OASIS, "Static Analysis Results Interchange Format Version 2.1.0", 2020.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from worldsize.base.span import Span
from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.snippet import escape_controls
from worldsize.diagnostics.snippet import show_path

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


class RuleInfo(Struct, frozen=True):
    """What SARIF lists of a rule: a one-line summary, its default severity, and its page's address."""

    slug: str
    summary: str
    severity: str
    docs: str


def render_sarif(diagnostics: Sequence[Diagnostic], rules: Mapping[str, RuleInfo], *, version: str) -> str:
    """One SARIF log with one run.

    Args:
        diagnostics: The findings, arranged.
        rules: Summary and severity by code, for at least the codes that occur.
        version: The version of worldsize.
    """
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


def _rule(code: str, rule: RuleInfo) -> dict[str, Any]:
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": {"text": rule.summary},
        "helpUri": rule.docs,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    text = diagnostic.message + (f"\nhelp: {diagnostic.help}" if diagnostic.help else "")
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": text},
        "locations": [_location(diagnostic.span)],
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
    artifact = {"uri": quote(show_path(span.path))}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}
