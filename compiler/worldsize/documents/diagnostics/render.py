"""The output formats by name. A renderer is imported when its format is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from worldsize.base.wording import plural
from worldsize.documents.diagnostics.diagnostic import Diagnostic, count_severities
from worldsize.documents.diagnostics.snippet import Sources

if TYPE_CHECKING:
    from worldsize.documents.diagnostics.ci_formats import RuleInfo

FORMATS = ("text", "concise", "json", "sarif", "github", "junit")


def render_report(
    format_: str,
    diagnostics: Sequence[Diagnostic],
    sources: Sources,
    files: Sequence[str],
    *,
    rules: Callable[[], Mapping[str, RuleInfo]],
    colour: bool = False,
    fixed: int = 0,
    known: int = 0,
    notes: bool = False,
    unchecked: str = "",
    passed_over: int = 0,
) -> str:
    """Render a whole report.

    Args:
        format_: One of :data:`FORMATS`.
        diagnostics: The findings, sorted.
        sources: Texts by path, for excerpts.
        files: The checked files.
        rules: The rules as SARIF lists them; called only for SARIF.
        colour: Whether ``text`` and ``concise`` may use terminal colours.
        fixed: How many problems were fixed before.
        known: How many findings a baseline has hidden, for ``text`` and ``concise``.
        notes: Whether findings of severity ``info`` are listed, in every format; ``text``, ``concise`` and
            ``json`` count them if not.
        unchecked: Why there was no file to check, for ``text`` and ``concise``.
        passed_over: How many files of Azure ML have a kind that is not checked, for ``text`` and ``concise``.

    Raises:
        ValueError: The format is unknown.
    """
    if format_ in ("text", "concise"):
        from worldsize.documents.diagnostics import text

        options: dict[str, Any] = {"files": len(files), "notes": notes, "colour": colour, "fixed": fixed}
        options["known"] = known
        if format_ == "concise":
            report = text.render_concise(diagnostics, **options)
        else:
            report = text.render_short(diagnostics, sources, **options)
        end = f": {unchecked}" if unchecked else _count_passed_over(passed_over)
        return f"{report.rstrip()}{end}\n" if end else report
    from worldsize.documents.diagnostics import ci_formats

    shown = [diagnostic for diagnostic in diagnostics if notes or diagnostic.is_shown_by_default]
    if format_ == "json":
        totals = count_severities(diagnostics)
        return ci_formats.render_json(shown, totals=totals, files=len(files), fixed=fixed)
    if format_ == "github":
        return ci_formats.render_github(shown)
    if format_ == "junit":
        return ci_formats.render_junit(shown, sources, files=files)
    if format_ == "sarif":
        from importlib.metadata import version

        return ci_formats.render_sarif(shown, rules(), version=version("worldsize"))
    raise ValueError(f"`{format_}` is not one of {', '.join(FORMATS)}")


def _count_passed_over(files: int) -> str:
    are = "is" if files == 1 else "are"
    return f"; {plural(files, 'file')} of other Azure ML kinds {are} not checked" if files else ""
