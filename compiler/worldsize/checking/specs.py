"""Checking the one file that ``plan`` and ``compile`` read: it is a spec, and it has no errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from worldsize.base.budget import OVER_BUDGET, Budgets, OverBudgetError, over_budget
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import discover
from worldsize.checking.checker import Report, check
from worldsize.diagnostics.sources import Sources
from worldsize.errors import SpecError
from worldsize.yaml import load


def check_spec(path: Path, text: str | None = None) -> Report:
    """Check a spec.

    Args:
        path: The file.
        text: What counts instead of the file's content on the disk.

    Returns:
        The report, which holds no error.

    Raises:
        SpecError: The file has errors, is not a spec, or takes too long to check.
    """
    report = check([path], texts=None if text is None else {str(path): text.encode()})
    refuse_incomplete(report)
    if text is None and (problem := _explain_other_kind(path)):
        from worldsize.rules import engine  # noqa: PLC0415 - only a refusal needs it

        raise SpecError(list(engine.diagnose([problem])), report.sources)
    if report.errors:
        raise SpecError(report.diagnostics, report.sources)
    return report


def refuse_incomplete(report: Report) -> None:
    """Refuse what was not checked to its end: it must not be planned, compiled or run.

    Raises:
        SpecError: A file took too long to check.
    """
    over = [each.slug == OVER_BUDGET for each in report.diagnostics]
    if any(over):
        found = [
            replace(each, severity="error") if late else each
            for each, late in zip(report.diagnostics, over, strict=True)
        ]
        raise SpecError(found, report.sources)


@contextmanager
def in_budget(path: Path, sources: Sources) -> Iterator[None]:
    """Do work on a spec that was checked within the time that checking it may take.

    Raises:
        SpecError: It takes longer.
    """
    try:
        with Budgets().charge(str(path)):
            yield
    except OverBudgetError:
        from worldsize.rules import engine  # noqa: PLC0415 - only a refusal needs it

        found = engine.diagnose([over_budget(str(path))])
        raise SpecError([replace(each, severity="error") for each in found], sources) from None


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
