"""Diagnostics as JUnit XML: a test case a checked file, so that any build server shows them."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.snippet import flatten
from worldsize.diagnostics.sources import Sources, shown_path
from worldsize.diagnostics.text import render_one


def render(diagnostics: Sequence[Diagnostic], sources: Sources, *, files: Sequence[str]) -> str:
    """One suite; files without a finding are passing cases.

    Args:
        diagnostics: The findings, arranged.
        sources: Texts for the excerpts.
        files: Paths of all checked files.
    """
    by_path: dict[str, list[Diagnostic]] = {path: [] for path in files}
    for diagnostic in diagnostics:
        by_path.setdefault(diagnostic.span.path, []).append(diagnostic)
    failing = sum(1 for found in by_path.values() if found)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites><testsuite name="worldsize" tests="{len(by_path)}" failures="{failing}" errors="0">',
    ]
    for path in sorted(by_path):
        lines.extend(_case(path, by_path[path], sources))
    return "\n".join([*lines, "</testsuite></testsuites>", ""])


def _case(path: str, found: list[Diagnostic], sources: Sources) -> list[str]:
    name = _attribute(shown_path(path))
    if not found:
        return [f'<testcase classname="worldsize" name={name}/>']
    kinds = " ".join(sorted({diagnostic.code for diagnostic in found}))
    body = "\n".join(render_one(diagnostic, sources) for diagnostic in found)
    headline = found[0].message if len(found) == 1 else f"{len(found)} findings, first: {found[0].message}"
    body = "\n".join(flatten(line) for line in body.split("\n"))
    return [
        f'<testcase classname="worldsize" name={name}>',
        f"<failure type={_attribute(kinds)} message={_attribute(headline)}>{escape(body)}</failure>",
        "</testcase>",
    ]


def _attribute(text: str) -> str:
    return quoteattr(flatten(text))
