"""Checking the one file that ``plan`` and ``compile`` read: it is a spec, and it has no errors."""

from __future__ import annotations

from pathlib import Path

from worldsize.checking import discover
from worldsize.checking.checker import Report, check
from worldsize.diagnostics.problem import Problem
from worldsize.errors import SpecError
from worldsize.yaml import load
from worldsize.yaml.span import Span


def check_spec(path: Path, text: str | None = None) -> Report:
    """Check a spec.

    Args:
        path: The file.
        text: What counts instead of the file's content on the disk.

    Returns:
        The report, which holds no error.

    Raises:
        SpecError: The file has errors, or is not a spec.
    """
    report = check([path], texts=None if text is None else {str(path): text.encode()})
    if text is None and (problem := _explain_other_kind(path)):
        from worldsize.rules import engine  # noqa: PLC0415 - only a refusal needs it

        raise SpecError(list(engine.diagnose([problem])), report.sources)
    if report.errors:
        raise SpecError(report.diagnostics, report.sources)
    return report


def _explain_other_kind(path: Path) -> Problem | None:
    """Say what a file is that is recognised, and is not a spec."""
    document = load(path)
    kind = discover.kind_of(document, named=True)
    if kind in (None, "spec"):
        return None
    what = "file" if kind in ("other", "settings") else kind.replace("-", " ")
    maker = "a worldsize settings" if kind == "settings" else "an Azure ML"
    verbs = "`worldsize check` or `worldsize run`" if kind.endswith("-job") else "`worldsize check`"
    return Problem(
        "spec-expected",
        Span(document.path, 1, 1, 1, 1),
        f"this is {maker} {what}, not a spec",
        f"use {verbs} for it; a spec has `steps:`",
    )
