"""Compiling a spec: checked, planned, resolved, and written as an Azure ML pipeline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from worldsize.base.problem import Problem
from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.diagnostics.sources import Sources
from worldsize.errors import SpecError
from worldsize.planning.model import Plan

if TYPE_CHECKING:
    from worldsize.checking import Report
    from worldsize.emit.layout import Files


class Compiled(Struct, frozen=True):
    """What a compile wrote."""

    folder: Path
    files: tuple[str, ...]  # paths inside the folder, sorted
    plan: Plan
    warnings: tuple[Diagnostic, ...]  # findings that did not keep the spec from compiling
    sources: Sources

    @property
    def pipeline(self) -> Path:
        """The pipeline job, for ``az ml job create`` or ``worldsize run``."""
        return self.folder / "pipeline.yml"


def compile(  # noqa: A001
    spec: str | os.PathLike[str], out: str | os.PathLike[str], *, text: str | None = None
) -> Compiled:
    """Compile a spec into a folder.

    The folder appears whole or not at all; an earlier output of ours is replaced, anything else is
    refused. The same spec gives the same bytes on every machine and day.

    Args:
        spec: The spec file.
        out: The folder to write.
        text: What counts instead of the spec's content on the disk.

    Returns:
        What was written, with the plan behind it.

    Raises:
        SpecError: The spec has errors, or takes too long. Nothing was written.
        OutputError: The folder holds what we did not write, or cannot be written. It is as it was.
    """
    from worldsize.checking import check_spec, in_budget  # noqa: PLC0415 - importing the verb costs nothing
    from worldsize.emit import place  # noqa: PLC0415

    path, folder = Path(spec), Path(out)
    report = check_spec(path, text)
    with in_budget(path, report.sources):
        files, plan = _resolve(path, folder, text, report)
    place.put(files, folder)
    return Compiled(folder, tuple(files), plan, report.diagnostics, report.sources)


def _resolve(path: Path, folder: Path, text: str | None, report: Report) -> tuple[Files, Plan]:
    """The files of a spec that was checked, and the plan behind them; nothing is written."""
    from worldsize.checking import boundary  # noqa: PLC0415
    from worldsize.emit import build, layout, place  # noqa: PLC0415
    from worldsize.spec import load  # noqa: PLC0415

    allowed = boundary.find_allowed(path)
    if refused := boundary.as_errors(report.diagnostics, allowed):
        raise SpecError(refused, report.sources)
    place.check_target(folder)
    loaded, problems, _ = load(path, text)
    if loaded is None:
        raise _error(problems, report)
    may = boundary.files_of(path)
    built, problems = build.build(loaded, may)
    if built.plan is None:
        raise _error(problems, report)
    if outside := boundary.not_copied(problems):
        raise _error(outside, report)
    files, problems = layout.files(built, folder, may.gate)
    problems = problems or boundary.refusals(files, allowed, loaded.span)
    if problems:
        raise _error(problems, report)
    return files, built.plan


def _error(problems: list[Problem], report: Report) -> SpecError:
    from worldsize.rules import engine  # noqa: PLC0415

    return SpecError(list(engine.diagnose(problems)), report.sources)
