"""The exceptions of runs that cannot start, or cannot be resumed."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.base.problem import HelpfulError, Problem
from worldsize.documents.diagnostics.snippet import Sources, draw_line, flatten, read_line, show_path
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
        return "\n".join(_render_problem(problem, self.sources) for problem in self.problems)


def _render_problem(problem: Problem, sources: Sources) -> str:
    """One problem with its source line, if there is one, and its help."""
    span = problem.span
    path = flatten(show_path(span.path))
    line = read_line(sources, span.path, span.line)
    gutter = " " * len(str(span.line))
    if line is None:
        lines = [f"{path}: error: {flatten(problem.message)}"]
    else:
        shown, column, length = draw_line(line, span)
        lines = [
            f"{path}:{span.line}:{span.column}: error: {flatten(problem.message)}",
            f"{gutter} |",
            f"{span.line} | {shown}".rstrip(),
            f"{gutter} | {' ' * column}{'^' * length}",
        ]
    for number, text in enumerate((problem.help or "").splitlines()):  # it may quote another program's output
        lines.append(f"{gutter} {'       ' if number else '= help:'} {flatten(text)}")
    return "\n".join(lines)
