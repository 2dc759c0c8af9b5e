"""The output formats by name. Each renderer is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.snippet import Sources

if TYPE_CHECKING:
    from worldsize.diagnostics.ci_formats import RuleInfo

FORMATS = ("text", "json", "sarif", "github", "junit")


def render_report(
    format_: str,
    diagnostics: Sequence[Diagnostic],
    sources: Sources,
    files: Sequence[str],
    *,
    rules: Callable[[], Mapping[str, RuleInfo]],
    colour: bool = False,
    fixed: int = 0,
) -> str:
    """A whole report.

    Args:
        format_: One of :data:`FORMATS`.
        diagnostics: The findings, arranged.
        sources: Texts by path, for excerpts.
        files: The checked files.
        rules: What SARIF lists of the rules, asked for only then.
        colour: Whether ``text`` may use terminal colours.
        fixed: How many problems were mended before.

    Raises:
        ValueError: An unknown format.
    """
    if format_ == "text":
        from worldsize.diagnostics import text  # noqa: PLC0415

        return text.render_text(diagnostics, sources, files=len(files), colour=colour, fixed=fixed)
    if format_ == "json":
        from worldsize.diagnostics import json_format  # noqa: PLC0415

        return json_format.render_json(diagnostics, files=len(files), fixed=fixed)
    if format_ == "github":
        from worldsize.diagnostics import ci_formats as github  # noqa: PLC0415

        return github.render_github(diagnostics)
    if format_ == "junit":
        from worldsize.diagnostics import ci_formats as junit  # noqa: PLC0415

        return junit.render_junit(diagnostics, sources, files=files)
    if format_ == "sarif":
        from importlib.metadata import version  # noqa: PLC0415

        from worldsize.diagnostics import ci_formats  # noqa: PLC0415

        return ci_formats.render_sarif(diagnostics, rules(), version=version("worldsize"))
    raise ValueError(f"`{format_}` is not one of {', '.join(FORMATS)}")
