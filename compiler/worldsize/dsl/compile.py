"""Compiles a pipeline job of azure-ai-ml: the folder that it becomes can be moved, kept and submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worldsize import checking
from worldsize.api import Compiled
from worldsize.azureml.job import read_job
from worldsize.base.span import Span
from worldsize.checking import Report, boundary
from worldsize.checking.specs import make_spec_error
from worldsize.documents.errors import SpecError
from worldsize.dsl.write import PLANNED
from worldsize.emit import output_folder
from worldsize.emit.portable import lay_out_pipeline
from worldsize.planning.model import Plan


def compile_job(job: Any, path: Path, report: Report, out: Path, name: str) -> Compiled:
    """Write a job as a folder.

    Args:
        job: The job, which may be planned.
        path: The pipeline that it was written as.
        report: The findings of its check.
        out: The folder.
        name: What people call the job.

    Raises:
        SpecError: The pipeline has errors, or names files that may not be copied. Nothing was written.
        OutputError: The folder holds what we did not write, or cannot be written. It is unchanged.
    """
    allowed = boundary.find_allowed(path)
    checking.refuse_incomplete(report)
    refused = report.errors or boundary.raise_to_errors(report.diagnostics, allowed)
    if refused:
        raise SpecError(list(refused), report.sources)
    output_folder.check_target(out)
    checked = getattr(job, PLANNED, None)
    plan = checked.plan if checked is not None else Plan(path.parent.name, {})
    files = boundary.make_files(path)
    with checking.in_budget(path, report.sources):
        graph, problems = read_job(path, files)
        if graph is None or problems:
            raise make_spec_error(problems, report.sources)
        header = f"Compiled by worldsize from {name}: change that, not this file."
        templates = checked.planned.templates if checked is not None else {}
        contents, faults = lay_out_pipeline(graph, (plan, templates), files.gate, out, header)
        if faults := faults or boundary.report_refused(contents, allowed, Span(str(path), 1, 1, 1, 1)):
            raise make_spec_error(faults, report.sources)
    output_folder.write_folder(contents, out)
    return Compiled(out, tuple(contents), plan, report.diagnostics, report.sources, graph, None)
