"""The result of a check: findings, the texts they point into, and which files were checked."""

from __future__ import annotations

from msgspec import Struct

from worldsize.base.wording import plural
from worldsize.documents.diagnostics import text
from worldsize.documents.diagnostics.diagnostic import INTERNAL, Diagnostic, count_severities
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.rules import registry

MAX_SHOWN = 200  # findings in a notebook


class Report(Struct, frozen=True):
    """What a check found. Diagnostics are sorted by position, without duplicates."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Sources  # texts by path, for showing excerpts
    files: tuple[str, ...]  # the recognised files that were checked
    fixed: int = 0  # problems that were fixed before this report
    known: int = 0  # findings that the baseline has
    notes: bool = False  # whether findings of severity `info` are listed: they were asked for
    unchecked: str = ""  # why there was no file to check
    passed_over: tuple[str, ...] = ()  # Azure ML's files of kinds that are not checked, without a finding

    @property
    def exit_code(self) -> int:
        """0 when clean, 1 with errors or warnings, 3 when worldsize itself failed."""
        if any(diagnostic.code == INTERNAL for diagnostic in self.diagnostics):
            return 3
        return int(any(diagnostic.severity != "info" for diagnostic in self.diagnostics))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that say that a file cannot work as written."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")

    def __str__(self) -> str:
        """What `worldsize check` prints."""
        return self.render().rstrip("\n")

    def __repr__(self) -> str:
        return f"<Report: {self._title}>"  # the fields hold the text of every file

    @property
    def _title(self) -> str:
        count = plural(len(self.diagnostics), "finding") if self.diagnostics else "nothing found"
        return f"{plural(len(self.files), 'file')} checked, {count}"

    def _repr_html_(self) -> str:
        """The findings as a table for a notebook."""
        from worldsize.base.shown_text import render_html_table

        rows = [
            (
                f"{finding.span.path}:{finding.span.line}:{finding.span.column}",
                f"{finding.severity}[{finding.code}]",
                finding.message,
                finding.help or "",
            )
            for finding in self.diagnostics[:MAX_SHOWN]
        ]
        left = len(self.diagnostics) - len(rows)
        note = f"and {left} more" if left else ""
        return render_html_table(self._title, ("place", "finding", "message", "help"), rows, note)

    def render(self, format_: str = "text", *, colour: bool = False) -> str:
        """In ``text``, ``concise``, ``json``, ``sarif``, ``github`` or ``junit``.

        Paths are relative to the working folder. Findings of severity ``info`` are only counted, unless they
        were asked for.

        Raises:
            ValueError: The format is unknown.
        """
        shown = [finding for finding in self.diagnostics if self.notes or finding.is_shown_by_default]
        files = len(self.files)
        if format_ in ("text", "concise"):
            summary = text.summarise_counts(self.diagnostics, files, self.fixed, self.known)
            summary += f"{self._describe_unchecked()}\n"
            if format_ == "concise":
                return text.render_concise(self.diagnostics, shown, summary, colour=colour)
            return text.render_short(self.diagnostics, shown, self.sources, summary, colour=colour)
        from worldsize.documents.diagnostics import ci_formats  # few callers are build servers

        if format_ == "json":
            totals = count_severities(self.diagnostics)
            return ci_formats.render_json(shown, totals=totals, files=files, fixed=self.fixed)
        if format_ == "github":
            return ci_formats.render_github(shown)
        if format_ == "junit":
            return ci_formats.render_junit(shown, self.sources, files=self.files)
        if format_ == "sarif":
            from importlib.metadata import version

            rules = {rule.code: rule for rule in registry.rules()}
            return ci_formats.render_sarif(shown, rules, version=version("worldsize"))
        raise ValueError(f"`{format_}` is not a format of a report")

    def _describe_unchecked(self) -> str:
        """Why there was no file to check, or how many files of Azure ML have kinds that are not checked."""
        if self.unchecked:
            return f": {self.unchecked}"
        count = len(self.passed_over)
        are = "is" if count == 1 else "are"
        return f"; {plural(count, 'file')} of other Azure ML kinds {are} not checked" if count else ""
