"""The output formats by name. A renderer is imported only when its format is asked for."""

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
    """Render a whole report in one of :data:`FORMATS`; ``rules`` is called only for SARIF.

    Raises:
        ValueError: The format is unknown.
    """
    if format_ == "text":
        from worldsize.diagnostics import text

        return text.render_text(diagnostics, sources, files=len(files), colour=colour, fixed=fixed)
    if format_ == "json":
        from worldsize.diagnostics import ci_formats

        return ci_formats.render_json(diagnostics, files=len(files), fixed=fixed)
    from worldsize.diagnostics import ci_formats

    if format_ == "github":
        return ci_formats.render_github(diagnostics)
    if format_ == "junit":
        return ci_formats.render_junit(diagnostics, sources, files=files)
    if format_ == "sarif":
        from importlib.metadata import version

        return ci_formats.render_sarif(diagnostics, rules(), version=version("worldsize"))
    raise ValueError(f"`{format_}` is not one of {', '.join(FORMATS)}")
