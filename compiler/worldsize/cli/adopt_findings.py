"""The findings of an adopted project, which is checked in a temporary folder, at the user's own files."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from worldsize.adopting.project.files import CODE
from worldsize.base.source import Source
from worldsize.base.span import Span

if TYPE_CHECKING:
    from worldsize.adopting.model import Adoption
    from worldsize.adopting.project.files import ProjectRequest
    from worldsize.checking import Report
    from worldsize.documents.diagnostics.diagnostic import Diagnostic

_ARGUMENTS = "give it in `--arguments`, which become part of the command, or data by `--data PATH`"


class _Places(Struct, frozen=True):
    """Where the files of a temporary folder are, or will be: below ``output``, else beside the script."""

    staging: Path
    folder: Path
    output: Path | None
    script: str
    lines: dict[int, int]  # of the script as it is, by the lines of its adopted text; empty if it is written

    def name(self, path: str) -> str:
        """The path of a file for its user."""
        inside = os.path.relpath(path, self.staging)
        if inside.startswith(os.pardir):
            return path
        if self.output is not None:
            return os.path.normpath(self.output / inside)
        return os.path.normpath(self.folder / inside.removeprefix(f"{CODE}/"))

    def move(self, span: Span) -> Span:
        """A place in a file of its user."""
        path = self.name(span.path)
        if path != self.script or not self.lines:
            return replace(span, path=path)
        line = self.lines.get(span.line)
        if line is None:  # the diff adds it after this one
            line = self.lines[max((each for each in self.lines if each < span.line), default=min(self.lines))]
            return Span(path, line, 1, line, 1)
        return replace(span, path=path, line=line, end_line=line + span.end_line - span.line)

    def replace_text(self, text: str | None) -> str | None:
        """A sentence without the temporary folder."""
        return text and text.replace(f"{self.staging}/{CODE}/", "").replace(f"{self.staging}/", "")

    def move_finding(self, each: Diagnostic) -> Diagnostic:
        """A finding with all its places."""
        return replace(
            each,
            span=self.move(each.span),
            message=self.replace_text(each.message),
            help=_ARGUMENTS if each.slug == "argument-missing" else self.replace_text(each.help),
            related=tuple(replace(other, span=self.move(other.span)) for other in each.related),
            fix=None,  # of a text that is not there
        )


def name_own_files(
    report: Report, staging: Path, request: ProjectRequest, output: Path | None, *, writes: bool
) -> Report:
    """The report of a project with the user's own files, those below ``output`` if that is given.

    The script has its adopted text if ``writes``, unless an error keeps it as it is.
    """
    adoption = request.adoption
    script = os.path.normpath(request.script)
    stays = output is None and not (writes and not report.errors)
    lines = _match_lines(adoption) if stays else {}
    places = _Places(staging, adoption.profile.find_folder(request.script), output, script, lines)
    sources = {
        places.name(path): Source(places.name(path), each.text) for path, each in report.sources.items()
    }
    if stays:
        sources[script] = Source(script, adoption.source)
    return replace(
        report,
        diagnostics=tuple(map(places.move_finding, report.diagnostics)),
        sources=sources,
        files=tuple(map(places.name, report.files)),
    )


def _match_lines(adoption: Adoption) -> dict[int, int]:
    """The lines of the script as it is, by the lines of its adopted text that are the same."""
    before, after = adoption.source.splitlines(), adoption.text.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return {
        block.b + offset + 1: block.a + offset + 1
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    } or {1: 1}
