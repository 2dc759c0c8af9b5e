"""Checks the one file that is to be planned, compiled, run or submitted: a spec or a job without errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from worldsize.azureml.copying import allow_everything
from worldsize.azureml.tree import Tree
from worldsize.base.limits import OVER_BUDGET, Budgets, OverBudgetError, report_over_budget
from worldsize.base.problem import Problem
from worldsize.base.span import Span
from worldsize.checking import boundary
from worldsize.checking.checker import check_files
from worldsize.checking.report import Report
from worldsize.checking.stages import CheckRun
from worldsize.documents.diagnostics.diagnostic import sort_unique
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.errors import SpecError
from worldsize.rules import engine, registry

if TYPE_CHECKING:
    from worldsize.azureml.model import Job
    from worldsize.documents.diagnostics.diagnostic import Diagnostic
    from worldsize.documents.yaml import Document
    from worldsize.resolving.planned import Planned


class CheckedSpec(Struct, frozen=True):
    """A spec without errors, as it is planned, and what its check reports."""

    planned: Planned
    report: Report


def check_spec(
    path: Path, document: Document | None = None, *, readable: Callable[[Path], bool] = allow_everything
) -> CheckedSpec:
    """Plan a spec that is to be compiled or run, and check it.

    Args:
        path: The file.
        document: The file, if it is parsed already; its text is used instead of that on the disk.
        readable: Which component files and data may be read, also outside of the tree; by default all.

    Raises:
        SpecError: The file has errors, also such as a comment silences but that leave no plan; it is not a
            spec, or it takes too long to check.
    """
    report, runs = check_files([path], document=document, readable=readable)
    refuse_incomplete(report)
    if problem := _explain_other_kind(runs):
        raise make_spec_error([problem], report.sources)
    if report.errors:
        raise SpecError(report.diagnostics, report.sources)
    planned = next((planned for run in runs for planned in run.planned.values()), None)
    if planned is None or planned.plan is None:
        silenced = [problem for run in runs for problem in run.problems]
        raise make_spec_error([*silenced, *(planned.consequences if planned else ())], report.sources)
    return CheckedSpec(planned, report)


class CheckedJob(Struct, frozen=True):
    """A job that may run, its graph, and what its check reports."""

    job: Job | None  # None of a file of another kind
    report: Report
    tree: Tree  # the files that were read, and the clusters that they describe


def check_job(
    path: Path, document: Document | None = None, *, tolerate: Callable[[Diagnostic], bool] = lambda _: False
) -> CheckedJob:
    """Check a job or schedule of Azure ML that is to be run or submitted.

    Args:
        path: The file.
        document: The file, if it is parsed already.
        tolerate: Tells of an error that does not keep the job from running where it is to run.

    Raises:
        SpecError: The file has other errors, names code outside its project, or takes too long to check.
    """
    report, (run,) = check_files([path], document=document)
    refuse_incomplete(report)
    if wrong := [error for error in report.errors if not tolerate(error)]:
        raise SpecError(wrong, report.sources)
    if outside := boundary.raise_to_errors(
        report.diagnostics, boundary.find_allowed(path, run.context.files.documents)
    ):
        raise SpecError(outside, report.sources)
    return CheckedJob(next(iter(run.jobs.values()), None), report, run.context)


def check_by_rules(jobs: Iterable[Job], slugs: Iterable[str], root: Path) -> list[Diagnostic]:
    """The findings of the rules for jobs that have these slugs, whatever else is wrong with the jobs."""
    context = Tree(root)
    rules = [rule for slug in slugs if (rule := registry.find(slug)) is not None]
    checks = [(rule, check) for rule in rules for name, check in registry.load_checks(rule) if name == "Job"]
    problems = (
        problem if isinstance(problem, Problem) else problem.under(rule.slug)
        for job in jobs
        for rule, check in checks
        for problem in check(context, job)
    )
    return sort_unique(engine.diagnose(problems))


def make_spec_error(problems: Iterable[Problem], sources: Sources) -> SpecError:
    """The error that problems are which no report has."""
    return SpecError(list(engine.diagnose(problems)), sources)


def refuse_incomplete(report: Report) -> None:
    """Refuse a spec that was not checked completely: it must not be planned, compiled or run.

    Raises:
        SpecError: A file took too long to check.
    """
    if errors := boundary.make_errors(report.diagnostics, (OVER_BUDGET,)):
        raise SpecError(errors, report.sources)


@contextmanager
def in_budget(path: Path, sources: Sources) -> Iterator[None]:
    """Do work on a spec that was checked within the time that checking it may take.

    Raises:
        SpecError: It takes longer.
    """
    try:
        with Budgets().charge(str(path)):
            yield
    except OverBudgetError:
        diagnostics = [*engine.diagnose([report_over_budget(str(path))])]
        raise SpecError(boundary.make_errors(diagnostics, (OVER_BUDGET,)), sources) from None


def _explain_other_kind(runs: list[CheckRun]) -> Problem | None:
    """Say what a file is that is recognised, and is not a spec."""
    path, kind = next(((path, kind) for run in runs for path, kind in run.kinds.items()), ("", "spec"))
    if kind == "spec":
        return None
    what = "file" if kind in ("other", "settings") else kind.replace("-", " ")
    maker = "a worldsize settings" if kind == "settings" else "an Azure ML"
    verbs = "`worldsize check` or `worldsize run`" if kind.endswith("-job") else "`worldsize check`"
    return Problem(
        "spec-expected",
        Span(path, 1, 1, 1, 1),
        f"this is {maker} {what}, not a spec",
        f"use {verbs} for it; a spec has `steps:`",
    )
