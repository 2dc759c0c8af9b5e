"""The result of a check: findings, the texts they point into, and which files were checked."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from worldsize.base.wording import plural
from worldsize.documents.diagnostics.diagnostic import INTERNAL, Diagnostic
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
                f"{each.span.path}:{each.span.line}:{each.span.column}",
                f"{each.severity}[{each.code}]",
                each.message,
                each.help or "",
            )
            for each in self.diagnostics[:MAX_SHOWN]
        ]
        left = len(self.diagnostics) - len(rows)
        note = f"and {left} more" if left else ""
        return render_html_table(self._title, ("place", "finding", "message", "help"), rows, note)

    def render(self, format_: str = "text", *, colour: bool = False) -> str:
        """In one of the formats; paths are relative to the working folder."""
        from worldsize.documents.diagnostics import render  # silent callers need no renderer

        return render.render_report(
            format_,
            self.diagnostics,
            self.sources,
            self.files,
            rules=self._rule_infos,
            colour=colour,
            fixed=self.fixed,
            known=self.known,
            notes=self.notes,
            unchecked=self.unchecked,
            passed_over=len(self.passed_over),
        )

    def _rule_infos(self) -> dict[str, Any]:
        from worldsize.documents.diagnostics.ci_formats import RuleInfo

        return {
            rule.code: RuleInfo(rule.slug, rule.summary, rule.severity, rule.docs, rule.confidence)
            for rule in registry.rules()
        }
