"""Reads the files of a check by project, gives what they contain to the rules, and reports what is found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize.azureml.copying import CopyAccess, allow_everything
from worldsize.azureml.files import Files, allow_nothing
from worldsize.azureml.tree import Tree, read_cluster
from worldsize.base.limits import Budgets
from worldsize.base.problem import Confidence
from worldsize.base.source import Source
from worldsize.checking import boundary, discover
from worldsize.checking.report import Report
from worldsize.checking.selection import (
    EVERYTHING,
    Choice,
    Selection,
    Wanted,
    cap_report,
    narrow,
    resolve_prefixes,
)
from worldsize.checking.stages import CheckRun
from worldsize.documents.diagnostics.diagnostic import Diagnostic, Severity, sort_unique
from worldsize.documents.diagnostics.text import wants_colour
from worldsize.documents.secrecy import masking
from worldsize.rules import engine

if TYPE_CHECKING:
    from worldsize.azureml.job import Compute
    from worldsize.checking.settings import Settings
    from worldsize.documents.yaml import Document


def check(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    min_severity: Severity | None = None,
    min_confidence: Confidence = "possible",
    exclude: Sequence[str] = (),
    baseline: str | os.PathLike[str] | None = None,
    texts: Mapping[str, bytes] | None = None,
) -> Report:
    """Check files and folders. :func:`worldsize.check`, which takes pipelines too, describes the arguments.

    Returns:
        The report. Files that cannot be read are diagnostics in it.

    Raises:
        ValueError: A word of ``select`` or ``ignore`` is not a code, the beginning of one, or a slug; a
            folder holds more files than can be meant; or the baseline cannot be read.
    """
    recorded = None
    if baseline is not None:
        from worldsize.checking.baseline import read_baseline  # few projects have one

        recorded = read_baseline(os.fspath(baseline))
    choice = Choice(select, ignore, min_severity, min_confidence, exclude, recorded)
    return check_files(paths, choice, texts=texts)[0]


def check_files(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    choice: Choice = EVERYTHING,
    *,
    texts: Mapping[str, bytes] | None = None,
    document: Document | None = None,
    readable: Callable[[Path], bool] | None = None,
) -> tuple[Report, list[CheckRun]]:
    """As :func:`check`, with what was read and planned of each project.

    ``document`` is a file that is parsed already. ``readable`` says which component files and data may be
    read; by default those in the tree.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    requested = Wanted(resolve_prefixes(choice.select), resolve_prefixes(choice.ignore))
    parsed = {} if document is None else {Path(os.path.realpath(document.path)): document}
    content = {Path(os.path.realpath(path)): text for path, text in (texts or {}).items()}
    files = Files(documents=parsed, texts=content)
    baseline = None if choice.baseline is None else choice.baseline.start_check()
    findings: list[Diagnostic] = []
    sources: dict[str, Source] = {}
    runs: list[CheckRun] = []
    projects = discover.group_projects(named, choice.exclude)
    excluded = hidden = 0
    for project in projects:
        run, settings, left_out = _read_project(project, files, choice, readable)
        problems = [*run.problems, *engine.run(run.context, run.subjects), *run.context.unreadable.values()]
        selection = Selection(
            run,
            choice,
            narrow(requested, settings),
            is_whole=discover.is_whole(project, named),
            is_complete=readable is not None,  # what is compiled or run
            left_out=left_out,
            severity=settings.severity if settings else {},
            baseline=baseline,
        )
        findings += selection.select(problems)
        hidden += selection.known
        run.files = [path for path in run.files if not left_out(path)]
        excluded += sum(left_out(file.path) for file in project.files)
        sources |= run.context.sources()
        runs.append(run)
    roots = {document.path: document.root for document in files.documents.values()}
    masked, shown_sources = masking.mask_findings(
        cap_report(sort_unique(findings), requested), sources, roots
    )
    checked, passed = _sort_files(runs, masked)
    notes = choice.min_severity is not None or bool(choice.select)
    unchecked = ""
    if not masked and all(discover.is_settings(path) for path in (*checked, *passed)):
        unchecked = discover.explain_nothing(named, choice.exclude, projects, excluded)
    report = Report(tuple(masked), shown_sources, checked, 0, hidden, notes, unchecked, passed)
    return report, runs


def _read_project(
    project: discover.Project, files: Files, choice: Choice, readable: Callable[[Path], bool] | None
) -> tuple[CheckRun, Settings | None, Callable[[str], bool]]:
    """Read the files of one project by its settings. The last of the results says what is left out."""
    files.readable = files.readable_data = allow_everything
    budgets = Budgets()
    chosen = _read_settings(project, files, budgets)
    context = Tree(Path(project.tree), chosen.allow if chosen else (), files=files, budgets=budgets)
    files.readable = files.readable_data = readable or context.readable
    if project.files:
        allowed = boundary.find_allowed(project.files[0].path, files.documents)
        files.gate = CopyAccess(allowed) if allowed is not None else CopyAccess(presumed=context.readable)
    else:
        files.gate = CopyAccess()
    run = CheckRun(context)
    files.mapped_data = allow_nothing
    if chosen is not None:
        files.mapped_data = chosen.find_mapped
        run.problems += chosen.problems
        context.vm_sizes = chosen.vm_sizes
        context.region, context.prices_file = chosen.region, chosen.prices_file
        for cluster in chosen.computes:
            context.describe(cluster)
    left_out = discover.find_left_out(project, _read_excluded(project, files), choice.exclude)
    for file in project.files:
        if not left_out(file.path):
            run.check_file(file)
    run.check_referred()
    _check_declared(run, chosen.computes if chosen is not None else [])
    return run, chosen, left_out


def _check_declared(run: CheckRun, declared: list[Compute]) -> None:
    """Check the clusters of ``worldsize.yml`` that no checked file gives the same VM size."""
    described = {
        (compute.name, read_cluster(compute).instance_type) for compute, _ in run.subjects.get("Compute", ())
    }
    for cluster in declared:
        size = cluster.size
        if size is None or size.span is None or not isinstance(size.value, str):
            continue
        if (cluster.name, read_cluster(cluster).instance_type) not in described:
            run.feed(cluster, size.span)


def _sort_files(
    runs: Iterable[CheckRun], findings: Sequence[Diagnostic]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that were checked, and those of kinds that are not, in which nothing was found."""
    passed = {path for run in runs for path in run.passed_over} - {finding.span.path for finding in findings}
    every = sorted(path for run in runs for path in run.files)
    return tuple(path for path in every if path not in passed), tuple(
        path for path in every if path in passed
    )


def _read_settings(project: discover.Project, files: Files, budgets: Budgets) -> Settings | None:
    if project.settings is None:
        return None
    from worldsize.checking import settings  # few projects have any

    path = os.path.relpath(project.settings)
    with budgets.charge(path):
        return settings.read_settings(files.document(Path(path)))


def _read_excluded(project: discover.Project, files: Files) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the settings of a project exclude, and those of the folders above it."""
    if project.settings is None:
        return
    from worldsize.checking import settings  # as above

    for path in discover.list_settings_above(str(Path(project.settings).parent), project.tree):
        document = files.document(Path(os.path.relpath(path)))
        yield str(Path(path).parent), settings.read_settings(document).exclude


def print_check(paths: Sequence[str]) -> int:
    """Check files and folders, print what was found, and return the exit status."""
    report = check(paths)
    write_output(report.render(colour=wants_colour(sys.stdout)))
    return report.exit_code


def write_output(text: str) -> None:
    """Print text, with characters that the terminal cannot show escaped."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()
