"""Reads files, gives what they contain to the rules, and selects and suppresses findings."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml.copying import CopyAccess
from worldsize.azureml.files import Files, allow_anything, allow_nothing
from worldsize.azureml.tree import read_cluster
from worldsize.base import limits
from worldsize.base.limits import Budgets
from worldsize.base.problem import Confidence, Problem
from worldsize.base.source import Source
from worldsize.base.wording import plural
from worldsize.checking import boundary, discover
from worldsize.checking.choice import EVERYTHING, Choice, Wanted, resolve_prefixes
from worldsize.checking.provided import leave_out_provided
from worldsize.checking.stages import CheckRun
from worldsize.checking.templates import leave_out_unfilled
from worldsize.documents.diagnostics.diagnostic import INTERNAL, SEVERITIES, Diagnostic, Severity, sort_unique
from worldsize.documents.diagnostics.snippet import Sources
from worldsize.documents.secrecy import masking
from worldsize.rules import engine, registry
from worldsize.rules.context import Context

if TYPE_CHECKING:
    from worldsize.azureml.job import Compute
    from worldsize.checking.settings import Settings
    from worldsize.documents.yaml import Document


MAX_SHOWN = 200  # findings in a notebook
_OF_CLUSTERS = ("WS2", "WS4", "WS7")  # rules that need the VM size of a cluster, or the plan


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
        from worldsize.documents.diagnostics.html_table import render_html_table

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
    known = None
    if baseline is not None:
        from worldsize.checking.baseline import read_baseline  # few projects have one

        known = read_baseline(os.fspath(baseline))
    choice = Choice(select, ignore, min_severity, min_confidence, exclude, known)
    return check_files(paths, choice, texts=texts)[0]


def check_files(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    choice: Choice = EVERYTHING,
    *,
    texts: Mapping[str, bytes] | None = None,
    document: Document | None = None,
    readable: Callable[[Path], bool] | None = None,
) -> tuple[Report, list[CheckRun]]:
    """As :func:`check`, with what was read and resolved meanwhile.

    ``document`` is a file that is parsed already. ``readable`` says which component files and data may be
    read; by default those in the tree.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    requested = Wanted(resolve_prefixes(choice.select), resolve_prefixes(choice.ignore))
    parsed = {} if document is None else {Path(os.path.realpath(document.path)): document}
    content = {Path(os.path.realpath(path)): text for path, text in (texts or {}).items()}
    files = Files(documents=parsed, texts=content)
    baseline = None if choice.baseline is None else choice.baseline.start_check()
    diagnostics: list[Diagnostic] = []
    sources: dict[str, Source] = {}
    runs: list[CheckRun] = []
    projects = discover.group_projects(named, choice.exclude)
    excluded = known = 0
    for project in projects:
        run, settings, left_out = _check_project(project, files, choice, readable)
        wanted = _narrow(requested, settings)
        problems = [*run.problems, *engine.run(run.context, run.subjects), *run.context.unreadable.values()]
        if readable is None:  # what is compiled or run must be complete
            read = run.context.sources()
            problems = leave_out_provided(leave_out_unfilled(problems, read), read, run.context)
        severity = settings.severity if settings else {}
        levelled = [_apply_severity(each, severity) for each in sort_unique(engine.diagnose(problems))]
        judged = _judge_parts(wanted, whole=discover.is_whole(project, named))
        kept = _apply_suppressions([each for each in levelled if wanted(each.code)], run, judged)
        kept = [each for each in kept if choice.admits(each) and not left_out(each.span.path)]
        run.files = [path for path in run.files if not left_out(path)]
        excluded += sum(left_out(file.path) for file in project.files)
        sources |= run.context.sources()
        new = kept if baseline is None else baseline.select_new(kept, sources)
        known, kept = known + len(kept) - len(new), new
        diagnostics += cap_repeats(kept, wanted)
        runs.append(run)
    roots = {document.path: document.root for document in files.documents.values()}
    masked, shown_sources = masking.mask_findings(
        cap_report(sort_unique(diagnostics), requested), sources, roots
    )
    checked, passed = _sort_files(runs, masked)
    notes = choice.min_severity is not None or bool(choice.select)
    unchecked = ""
    if not masked and all(discover.is_settings(path) for path in (*checked, *passed)):
        from worldsize.checking.nothing import explain_nothing  # nearly all checks find a file

        unchecked = explain_nothing(named, choice.exclude, projects, excluded)
    report = Report(tuple(masked), shown_sources, checked, 0, known, notes, unchecked, passed)
    return report, runs


def _check_project(
    project: discover.Project, files: Files, choice: Choice, readable: Callable[[Path], bool] | None
) -> tuple[CheckRun, Settings | None, Callable[[str], bool]]:
    """Read the files of one project by its settings. The last of the results says what is left out."""
    files.readable = files.readable_data = allow_anything
    budgets = Budgets()
    chosen = _read_settings(project, files, budgets)
    context = Context(Path(project.tree), chosen.allow if chosen else (), files=files, budgets=budgets)
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
    described = {(each.name, read_cluster(each).instance_type) for each, _ in run.subjects.get("Compute", ())}
    for cluster in declared:
        size = cluster.size
        if size is None or size.span is None or not isinstance(size.value, str):
            continue
        if (cluster.name, read_cluster(cluster).instance_type) not in described:
            run.feed(cluster, size.span)


def _narrow(wanted: Wanted, chosen: Settings | None) -> Wanted:
    """What is wanted of a project, by its settings too."""
    if chosen is None:
        return wanted
    # What is wrong with the file itself is reported whatever it selects.
    own = (*dict.fromkeys(chosen.select), "WS03") if chosen.select else ()
    silent = [code for code, level in chosen.severity.items() if level == "off"]
    return Wanted(wanted.selected or own, tuple({*wanted.ignored, *chosen.ignore, *silent}))


def _sort_files(
    runs: Iterable[CheckRun], found: Sequence[Diagnostic]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that were checked, and those of kinds that are not, in which nothing was found."""
    passed = {path for run in runs for path in run.passed_over} - {each.span.path for each in found}
    every = sorted(path for run in runs for path in run.files)
    return tuple(each for each in every if each not in passed), tuple(
        each for each in every if each in passed
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

    for path in discover.list_settings_above(project.settings, project.tree):
        document = files.document(Path(os.path.relpath(path)))
        yield str(Path(path).parent), settings.read_excluded(document)


def _apply_severity(diagnostic: Diagnostic, severity: dict[str, str]) -> Diagnostic:
    """A diagnostic with the severity that the project gives it; the longest beginning of its code decides."""
    matching = [code for code in severity if diagnostic.code.startswith(code)]
    if not matching or diagnostic.code == INTERNAL:
        return diagnostic
    return replace(diagnostic, severity=cast("Severity", severity[max(matching, key=len)]))


def _apply_suppressions(
    diagnostics: list[Diagnostic], run: CheckRun, judged: Callable[[str], bool]
) -> list[Diagnostic]:
    """Apply the suppressing comments of all files, and report those without effect of rules ``judged``."""
    documents = [run.context.document(path) for path in run.files]
    marked = [document for document in documents if "worldsize" in document.text]
    if not marked:
        return diagnostics
    from worldsize.documents.diagnostics import suppress  # few files have such comments

    suppressions: dict[str, list[suppress.Suppression]] = {}
    problems: list[Problem] = []
    for document in marked:
        with run.context.budgets.charge(document.path):
            suppressions[document.path], unusable = suppress.parse_suppressions(
                document.comments, lambda word: registry.find(word) is not None, registry.names
            )
        problems += unusable
    kept = suppress.apply_suppressions(diagnostics, suppressions)
    for path, file_suppressions in suppressions.items():
        if path not in run.incomplete | run.context.budgets.exhausted:
            problems += suppress.report_unused(file_suppressions, lambda word: judged(_code(word)))
    extra = [diagnostic for diagnostic in engine.diagnose(problems) if judged(diagnostic.code)]
    return sort_unique([*kept, *extra])


def _judge_parts(wanted: Wanted, *, whole: bool) -> Callable[[str], bool]:
    """Whether files show that a rule finds nothing: clusters may be in the rest of a checkout."""
    return lambda code: wanted(code) and (whole or not code.startswith(_OF_CLUSTERS))


def _code(word: str) -> str:
    rule = registry.find(word)
    return word if rule is None else rule.code


def print_check(paths: Sequence[str]) -> int:
    """Check files and folders, print what was found, and return the exit status."""
    from worldsize.documents.diagnostics.text import wants_colour  # other callers print nothing

    report = check(paths)
    write_output(report.render(colour=wants_colour(sys.stdout)))
    return report.exit_code


def write_output(text: str) -> None:
    """Print text, with characters that the terminal cannot show escaped."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()


_HELP = "fix what is listed and check again"


def cap_repeats(diagnostics: Sequence[Diagnostic], wanted: Wanted) -> list[Diagnostic]:
    """The first findings of each rule in each file, and a note that counts the rest.

    Of a file that still has too many findings, the most severe are kept.
    """
    if len(diagnostics) <= limits.SAME:
        return list(diagnostics)
    counts: Counter[tuple[str, str]] = Counter()
    kept: dict[str, list[Diagnostic]] = {}
    last: dict[tuple[str, str], Diagnostic] = {}
    for each in diagnostics:
        key = (each.span.path, each.code)
        counts[key] += 1
        if counts[key] <= limits.SAME:
            kept.setdefault(each.span.path, []).append(each)
            last[key] = each
    notes = list(_notes(counts, last))
    listed: list[Diagnostic] = []
    for findings in kept.values():
        most_severe = _select_most_severe(findings, limits.LISTED)
        if len(most_severe) < len(findings):
            left_out = len(findings) - len(most_severe)
            message = f"{left_out:,} more findings of several rules in this file are not listed"
            notes.append(Problem("findings-left-out", most_severe[-1].span, message, _HELP))
        listed += most_severe
    return sort_unique([*listed, *(note for note in engine.diagnose(notes) if wanted(note.code))])


def cap_report(diagnostics: Sequence[Diagnostic], wanted: Wanted) -> list[Diagnostic]:
    """The most severe findings of a whole check, and one more that counts the rest."""
    kept = _select_most_severe(diagnostics, limits.REPORTED)
    if len(kept) == len(diagnostics):
        return kept
    listed = {each.span.path for each in kept}
    left = {each.span.path for each in diagnostics} - listed
    files = f", among them all of {len(left):,} files," if left else ""
    message = f"{len(diagnostics) - len(kept):,} more findings{files} are not listed"
    note = Problem("findings-left-out", kept[-1].span, message, _HELP)
    return sort_unique([*kept, *(each for each in engine.diagnose([note]) if wanted(each.code))])


def _select_most_severe(diagnostics: Sequence[Diagnostic], limit: int) -> list[Diagnostic]:
    """At most ``limit`` findings, errors before warnings before the rest, in their original order."""
    if len(diagnostics) <= limit:
        return list(diagnostics)
    ranked = sorted(range(len(diagnostics)), key=lambda at: (SEVERITIES.index(diagnostics[at].severity), at))
    return [diagnostics[at] for at in sorted(ranked[:limit])]


def _notes(counts: Counter[tuple[str, str]], last: dict[tuple[str, str], Diagnostic]) -> Iterator[Problem]:
    for key, count in counts.items():
        if count > limits.SAME:
            more = f"{'at least ' if count >= limits.FOUND else ''}{count - limits.SAME:,}"
            message = f"{more} more findings of `{key[1]}` in this file are not listed"
            yield Problem("findings-left-out", last[key].span, message, _HELP)
