"""Reads files, gives what they contain to the rules, and selects and suppresses findings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import replace

from worldsize.azureml.copying import CopyAccess, allow_everything
from worldsize.azureml.files import Files, allow_anything
from worldsize.base.limits import Budgets
from worldsize.base.problem import Problem
from worldsize.base.source import Source
from worldsize.base.suggest import did_you_mean
from worldsize.checking import boundary, discover, shorten
from worldsize.checking.provided import leave_out_provided
from worldsize.checking.stages import CheckRun
from worldsize.checking.templates import leave_out_unfilled
from worldsize.diagnostics.diagnostic import Diagnostic, Severity, sort_unique
from worldsize.diagnostics.snippet import Sources
from worldsize.rules import engine, registry
from worldsize.rules.context import Context
from worldsize.secrecy import reports

if TYPE_CHECKING:
    from worldsize.checking.settings import Settings
    from worldsize.yaml import Document

INTERNAL = "WS000"


class Report(Struct, frozen=True):
    """What a check found. Diagnostics are sorted by position, without duplicates."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Sources  # texts by path, for showing excerpts
    files: tuple[str, ...]  # the recognised files that were checked
    fixed: int = 0  # problems that were fixed before this report

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

    def render(self, format_: str = "text", *, colour: bool = False) -> str:
        """As ``text``, ``json``, ``sarif``, ``github`` or ``junit``; paths relative to the working folder."""
        from worldsize.diagnostics import render  # silent callers need no renderer

        return render.render_report(
            format_,
            self.diagnostics,
            self.sources,
            self.files,
            rules=self._rule_infos,
            colour=colour,
            fixed=self.fixed,
        )

    def _rule_infos(self) -> dict[str, Any]:
        from worldsize.diagnostics.ci_formats import RuleInfo

        return {
            rule.code: RuleInfo(rule.slug, rule.summary, rule.severity, rule.docs)
            for rule in registry.rules()
        }


def check(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    texts: Mapping[str, bytes] | None = None,
) -> Report:
    """Check files and folders.

    Args:
        paths: Specs, Azure ML YAML files, or folders of them. Other files
            in a folder are skipped.
        select: Codes (``WS203``), beginnings of codes (``WS2``) or slugs; only these are reported.
        ignore: The same; these are not reported. Faults of worldsize itself always are.
        texts: Contents of files by path, which count instead of those on the disk.

    ``worldsize.yml`` of a file's project has further settings: see ``schemas/worldsize.schema.json``.

    Returns:
        The report. Files that cannot be read are diagnostics in it.

    Raises:
        ValueError: A word of ``select`` or ``ignore`` is not a code, the beginning of one, or a slug; or a
            folder holds more files than can be meant.
    """
    return check_files(paths, select=select, ignore=ignore, texts=texts)[0]


def check_files(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    texts: Mapping[str, bytes] | None = None,
    document: Document | None = None,
    readable: Callable[[Path], bool] | None = None,
) -> tuple[Report, list[CheckRun]]:
    """As :func:`check`, with what was read and resolved meanwhile.

    ``document`` is a file that is parsed already. ``readable`` says which component files and data may be
    read; by default those in the tree.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    requested = Wanted(_resolve_prefixes(select), _resolve_prefixes(ignore))
    parsed = {} if document is None else {Path(os.path.realpath(document.path)): document}
    content = {Path(os.path.realpath(path)): text for path, text in (texts or {}).items()}
    files = Files(documents=parsed, texts=content)
    diagnostics: list[Diagnostic] = []
    sources: dict[str, Source] = {}
    runs: list[CheckRun] = []
    for project in discover.group_projects(listed):
        run, wanted, severity = _check_project(project, files, requested, readable)
        problems = run.problems + list(engine.run(run.context, run.subjects))
        if readable is None:  # what is compiled or run must be complete
            read = run.context.sources()
            problems = leave_out_provided(leave_out_unfilled(problems, read), read, run.context)
        levelled = [_apply_severity(each, severity) for each in sort_unique(engine.diagnose(problems))]
        kept = _apply_suppressions([each for each in levelled if wanted(each.code)], run, wanted)
        diagnostics += shorten.cap_repeats(kept, wanted)
        sources |= run.context.sources()
        runs.append(run)
    roots = {document.path: document.root for document in files.documents.values()}
    masked, shown_sources = reports.mask_findings(
        shorten.cap_report(sort_unique(diagnostics), requested), sources, roots
    )
    checked = sorted(path for run in runs for path in run.files)
    return Report(tuple(masked), shown_sources, tuple(checked)), runs


def _check_project(
    project: discover.Project, files: Files, wanted: Wanted, readable: Callable[[Path], bool] | None
) -> tuple[CheckRun, Wanted, dict[str, str]]:
    """Read the files of one project by its settings."""
    files.readable = files.readable_data = allow_anything
    budgets = Budgets()
    chosen = _read_settings(project, files, budgets)
    context = Context(Path(project.tree), chosen.allow if chosen else (), files=files, budgets=budgets)
    files.readable = files.readable_data = readable or context.readable
    if project.files:
        files.gate = CopyAccess(
            boundary.find_allowed(project.files[0].path, files.documents) or allow_everything
        )
    else:
        files.gate = CopyAccess()
    run = CheckRun(context)
    if chosen is not None:
        run.problems += chosen.problems
        for cluster in chosen.computes:
            context.describe(cluster)
        # What is wrong with the file itself is reported whatever it selects.
        own = (*dict.fromkeys(chosen.select), "WS03") if chosen.select else ()
        silent = [code for code, level in chosen.severity.items() if level == "off"]
        wanted = Wanted(wanted.selected or own, tuple({*wanted.ignored, *chosen.ignore, *silent}))
    for file in project.files:
        run.check_file(file)
    run.check_referred()
    return run, wanted, chosen.severity if chosen else {}


def _read_settings(project: discover.Project, files: Files, budgets: Budgets) -> Settings | None:
    if project.settings is None:
        return None
    from worldsize.checking import settings  # few projects have any

    path = os.path.relpath(project.settings)
    with budgets.charge(path):
        return settings.read_settings(files.document(Path(path)))


def _apply_severity(diagnostic: Diagnostic, severity: dict[str, str]) -> Diagnostic:
    """A diagnostic with the severity that the project gives it; the longest beginning of its code decides."""
    matching = [code for code in severity if diagnostic.code.startswith(code)]
    if not matching or diagnostic.code == INTERNAL:
        return diagnostic
    return replace(diagnostic, severity=cast("Severity", severity[max(matching, key=len)]))


def _apply_suppressions(diagnostics: list[Diagnostic], run: CheckRun, wanted: Wanted) -> list[Diagnostic]:
    """Apply the suppressing comments of all files, and report those without effect."""
    documents = [run.context.document(path) for path in run.files]
    marked = [document for document in documents if "worldsize" in document.text]
    if not marked:
        return diagnostics
    from worldsize.diagnostics import suppress  # few files have such comments

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
            problems += suppress.report_unused(file_suppressions, lambda word: wanted(_code(word)))
    extra = [diagnostic for diagnostic in engine.diagnose(problems) if wanted(diagnostic.code)]
    return sort_unique([*kept, *extra])


def _code(word: str) -> str:
    rule = registry.find(word)
    return word if rule is None else rule.code


class Wanted(NamedTuple):
    """Which codes are reported: beginnings of codes."""

    selected: tuple[str, ...]
    ignored: tuple[str, ...]

    def __call__(self, code: str) -> bool:
        """Whether a code is to be reported; faults of worldsize itself always are."""
        if code == INTERNAL:
            return True
        return (not self.selected or code.startswith(self.selected)) and not code.startswith(self.ignored)


def _resolve_prefixes(words: Sequence[str]) -> tuple[str, ...]:
    prefixes = []
    for word in words:
        prefix = find_prefix(word)
        if prefix is None:
            raise ValueError(": ".join(describe_unknown_rule(word)))
        prefixes.append(prefix)
    return tuple(prefixes)


def find_prefix(word: str) -> str | None:
    """The code of a slug, a code or the beginning of one, in upper case; None for anything else."""
    rule = registry.find(word)
    prefix = word.upper() if rule is None else rule.code
    return prefix if prefix and registry.begins_code(prefix) else None


def describe_unknown_rule(word: str) -> tuple[str, str]:
    """Message and help for a word that is not the name of a rule."""
    advice = did_you_mean(word, registry.names()) or "`worldsize explain` lists all rules"
    return f"`{word}` is not the code or slug of a rule", advice


def print_check(
    paths: Sequence[str], *, format_: str = "text", select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> int:
    """Check files and folders, print the findings and return the exit status.

    Raises:
        ValueError: A word of ``select`` or ``ignore`` is not a code or slug.
    """
    from worldsize.diagnostics.text import wants_colour  # other callers print nothing

    report = check(paths, select=select, ignore=ignore)
    write_output(report.render(format_, colour=wants_colour(sys.stdout)))
    return report.exit_code


def write_output(text: str) -> None:
    """Print text, with characters that the terminal cannot show escaped."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()
