"""The exceptions of runs that cannot start, or cannot be resumed."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.base.problem import HelpfulError, Problem
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.diagnostics.text import render_diagnostic
from worldsize.documents.secrecy import masking


class ResumeError(HelpfulError):
    """A run cannot be resumed and is unchanged."""


class RunError(Exception):
    """A pipeline cannot be run here; nothing was started.

    ``problems`` are all causes, in the order of the file.
    """

    def __init__(self, problems: Sequence[Problem], sources: Sources | None = None) -> None:
        super().__init__()
        masked, shown = masking.mask_findings(problems, dict(sources or {}))
        self.problems = tuple(masked)
        self.sources: Sources = shown

    def __str__(self) -> str:
        return "".join(
            render_diagnostic(
                Diagnostic("", "", "error", problem.message, problem.span, problem.help), self.sources
            )
            for problem in self.problems
        ).rstrip("\n")
