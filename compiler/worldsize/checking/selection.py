"""What is reported of all that is found: the filters between a rule and the user, in their order.

A caller chooses rules, levels, folders and a baseline (:class:`Choice`); a project's ``worldsize.yml`` and
the comments in its files choose as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base import limits
from worldsize.base.problem import CONFIDENCES, Confidence, Problem
from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import quoted_list
from worldsize.checking.provided import is_provided, leave_out_unfilled
from worldsize.documents.diagnostics.diagnostic import INTERNAL, SEVERITIES, Diagnostic, Severity, sort_unique
from worldsize.rules import engine, registry

if TYPE_CHECKING:
    from worldsize.checking.baseline import Baseline
    from worldsize.checking.settings import Settings
    from worldsize.checking.stages import CheckRun
    from worldsize.documents.diagnostics.suppress import Suppression
    from worldsize.documents.yaml.load import Comment

_OF_CLUSTERS = ("WS2", "WS4", "WS7")  # rules that need the VM size of a cluster, or the plan
_HELP = "fix what is listed and check again"


class Choice(Struct, frozen=True):
    """What the caller of a check asks for.

    Args:
        select: Codes (``WS203``), beginnings of codes (``WS2``) or slugs; only these are reported.
        ignore: The same; these are not reported. Faults of worldsize itself always are.
        min_severity: Less severe findings are not reported. By default all are, but unless ``select`` names
            rules, no format lists those of severity ``info``.
        min_confidence: Less certain findings are not reported.
        exclude: Patterns as in ``.gitignore``, relative to the working folder; nothing is reported of what
            they match.
        baseline: The findings that were known before; these are not reported.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    min_severity: Severity | None = None
    min_confidence: Confidence = "possible"
    exclude: Sequence[str] = ()
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        """Refuse words that are not levels."""
        levels = ((self.min_severity or "info", SEVERITIES), (self.min_confidence, CONFIDENCES))
        for word, words in levels:
            if word not in words:
                raise ValueError(f"`{word}` is not one of {quoted_list(words)}")

    def admits(self, diagnostic: Diagnostic) -> bool:
        """Whether a finding is severe and certain enough; faults of worldsize itself always are."""
        if diagnostic.code == INTERNAL:
            return True
        return SEVERITIES.index(diagnostic.severity) <= SEVERITIES.index(
            self.min_severity or "info"
        ) and CONFIDENCES.index(diagnostic.confidence) <= CONFIDENCES.index(self.min_confidence)


EVERYTHING = Choice()


class Wanted(NamedTuple):
    """Which codes are reported: beginnings of codes."""

    selected: tuple[str, ...]
    ignored: tuple[str, ...]

    def __call__(self, code: str) -> bool:
        """Whether a code is to be reported; faults of worldsize itself always are."""
        if code == INTERNAL:
            return True
        return (not self.selected or code.startswith(self.selected)) and not code.startswith(self.ignored)


def resolve_prefixes(words: Sequence[str]) -> tuple[str, ...]:
    """The beginnings of codes that the words name.

    Raises:
        ValueError: A word is not a code, the beginning of one, or a slug.
    """
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
    near = None if word[-1:].isdigit() else did_you_mean(word, registry.names())  # a code is not guessed
    advice = near or "`worldsize explain` lists all rules"
    return f"`{word}` is not the code or slug of a rule", advice


def narrow(wanted: Wanted, settings: Settings | None) -> Wanted:
    """What is wanted of a project, by its settings too."""
    if settings is None:
        return wanted
    # What is wrong with the file itself is reported whatever it selects.
    selected = (*dict.fromkeys(settings.select), "WS03") if settings.select else ()
    silent = [code for code, level in settings.severity.items() if level == "off"]
    return Wanted(wanted.selected or selected, tuple({*wanted.ignored, *settings.ignore, *silent}))


class Selection(Struct):
    """One project's way from the problems of its files to the findings that are listed."""

    run: CheckRun
    choice: Choice
    wanted: Wanted
    is_whole: bool  # whether all files of the project are checked, so that a rule's silence means something
    is_complete: bool  # whether nothing may be missing: the files are compiled or run
    left_out: Callable[[str], bool]  # paths that the project or the caller excludes
    severity: Mapping[str, str] = field(default_factory=dict)  # of the project, by beginnings of codes
    baseline: Baseline | None = None
    known: int = 0  # findings that the baseline has

    def select(self, problems: Iterable[Problem]) -> list[Diagnostic]:
        """The findings to list, of all problems of the project: the filters in their order.

        Over all projects the report is capped once more (:func:`cap_report`), and secrets are masked last, in
        what is shown.
        """
        context = self.run.context
        sources = context.sources()
        if not self.is_complete:  # templates are filled in, and files provided, before Azure ML reads them
            problems = leave_out_unfilled(problems, sources)
            problems = [problem for problem in problems if not is_provided(problem, sources, context)]
        findings = [self._set_severity(finding) for finding in sort_unique(engine.diagnose(problems))]
        findings = [finding for finding in findings if self.wanted(finding.code)]
        # After the choice of rules: a comment is not unused because its rule is not asked for. Before the
        # levels: what is wrong with a comment has one too.
        findings = self._apply_suppressions(findings)
        findings = [finding for finding in findings if self.choice.admits(finding)]
        findings = [finding for finding in findings if not self.left_out(finding.span.path)]
        if self.baseline is not None:  # which knows what would be listed without it
            new = self.baseline.select_new(findings, sources)
            self.known, findings = len(findings) - len(new), new
        return cap_repeats(findings, self.wanted)

    def judges(self, code: str) -> bool:
        """Whether files show that a rule finds nothing: clusters may be in the rest of a checkout."""
        return self.wanted(code) and (self.is_whole or not code.startswith(_OF_CLUSTERS))

    def _set_severity(self, finding: Diagnostic) -> Diagnostic:
        """Give a finding the project's severity; the longest beginning of its code decides."""
        matching = [code for code in self.severity if finding.code.startswith(code)]
        if not matching or finding.code == INTERNAL:
            return finding
        return replace(finding, severity=cast("Severity", self.severity[max(matching, key=len)]))

    def _apply_suppressions(self, findings: list[Diagnostic]) -> list[Diagnostic]:
        """Apply the comments of all files, and report those without effect on a rule that is judged."""
        run, judged = self.run, self.judges
        documents = [run.context.document(path) for path in run.files]
        marked = [document for document in documents if "worldsize" in document.text]
        if not marked:
            return findings
        from worldsize.documents.diagnostics import suppress  # few files have such comments

        suppressions: dict[str, list[Suppression]] = {}
        problems: list[Problem] = []
        for document in marked:
            with run.context.budgets.charge(document.path):
                suppressions[document.path], unusable = read_suppressions(document.comments)
            problems += unusable
        kept = suppress.apply_suppressions(findings, suppressions)
        for path, file_suppressions in suppressions.items():
            if path not in run.incomplete | run.context.budgets.exhausted:
                problems += suppress.report_unused(file_suppressions, lambda word: judged(_code(word)))
        extra = [diagnostic for diagnostic in engine.diagnose(problems) if judged(diagnostic.code)]
        return sort_unique([*kept, *extra])


def read_suppressions(comments: Iterable[Comment]) -> tuple[list[Suppression], list[Problem]]:
    """The suppressions among comments, and the problems of those that cannot be used."""
    from worldsize.documents.diagnostics.suppress import parse_suppressions  # few files have such comments

    return parse_suppressions([*comments], lambda word: registry.find(word) is not None, registry.names)


def _code(word: str) -> str:
    rule = registry.find(word)
    return word if rule is None else rule.code


def cap_repeats(diagnostics: Sequence[Diagnostic], wanted: Wanted) -> list[Diagnostic]:
    """The first findings of each rule in each file, and a note that counts the rest.

    Of a file that still has too many findings, the most severe are kept.
    """
    if len(diagnostics) <= limits.SAME:
        return list(diagnostics)
    counts: Counter[tuple[str, str]] = Counter()
    kept: dict[str, list[Diagnostic]] = {}
    last: dict[tuple[str, str], Diagnostic] = {}
    for finding in diagnostics:
        key = (finding.span.path, finding.code)
        counts[key] += 1
        if counts[key] <= limits.SAME:
            kept.setdefault(finding.span.path, []).append(finding)
            last[key] = finding
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
    listed = {finding.span.path for finding in kept}
    left = {finding.span.path for finding in diagnostics} - listed
    files = f", among them all of {len(left):,} files," if left else ""
    message = f"{len(diagnostics) - len(kept):,} more findings{files} are not listed"
    note = Problem("findings-left-out", kept[-1].span, message, _HELP)
    return sort_unique([*kept, *(finding for finding in engine.diagnose([note]) if wanted(finding.code))])


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
