"""The exceptions that the Python verbs raise: for faults of a spec, and of the place to write to."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.base.problem import HelpfulError
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.diagnostics.snippet import Sources


class SpecError(Exception):
    """A spec cannot be planned, compiled or run.

    ``diagnostics`` are all findings, warnings included, sorted by place; the text of the exception
    is what ``worldsize check`` prints.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], sources: Sources) -> None:
        from worldsize.documents.secrecy import masking  # most verbs meet no error

        super().__init__()
        masked, shown = masking.mask_findings(diagnostics, sources)
        self.diagnostics = tuple(masked)
        self.sources: Sources = shown

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def render(self, *, colour: bool = False) -> str:
        """The findings with their source lines, as text."""
        from worldsize.documents.diagnostics import text  # most are caught, not shown

        return text.render_text(self.diagnostics, self.sources, colour=colour)


class OutputError(HelpfulError):
    """The output folder cannot be written; it is as it was. ``help`` says what to do."""


class PipelineError(HelpfulError):
    """A pipeline in Python cannot be loaded, planned or written. ``help`` says what to do."""
