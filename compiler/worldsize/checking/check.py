"""Reads files, hands what they hold to the rules, and reports: stages, suppression, selection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from worldsize.checking import conceal, discover, stages
from worldsize.checking.run import Run
from worldsize.diagnostics.diagnostic import Diagnostic, arrange
from worldsize.diagnostics.problem import Problem
from worldsize.diagnostics.sources import Sources
from worldsize.diagnostics.suggest import did_you_mean
from worldsize.records import dataclass, field
from worldsize.rules import engine, registry
from worldsize.rules.context import Context

INTERNAL = "WS000"


@dataclass(frozen=True)
class Report:
    """What a check found. Diagnostics are sorted by place and each stands once."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Sources = field(repr=False)  # texts by path, for showing excerpts
    files: tuple[str, ...]  # the recognised files that were checked

    @property
    def exit_code(self) -> int:
        """0 when clean, 1 with errors or warnings, 3 when worldsize itself failed on the way."""
        if any(diagnostic.code == INTERNAL for diagnostic in self.diagnostics):
            return 3
        return int(any(diagnostic.severity != "info" for diagnostic in self.diagnostics))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that say a file cannot work as written."""
        return tuple(diagnostic for diagnostic in self.diagnostics if diagnostic.severity == "error")

    def render(self, format_: str = "text", *, colour: bool = False) -> str:
        """As ``text``, ``json``, ``sarif``, ``github`` or ``junit``; paths relative to the working folder."""
        from worldsize.diagnostics import render  # noqa: PLC0415 - silent callers need no renderer

        return render.report(
            format_, self.diagnostics, self.sources, self.files, rules=self._rule_infos, colour=colour
        )

    def _rule_infos(self) -> dict[str, Any]:
        from worldsize.diagnostics.sarif import RuleInfo  # noqa: PLC0415

        rules = [registry.load(entry) for entry in registry.entries()]
        return {rule.code: RuleInfo(rule.slug, rule.summary, rule.severity) for rule in rules}


def check(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> Report:
    """Check files and folders.

    Args:
        paths: Specs, Azure ML YAML files, or folders of them. A file in a folder that is neither is
            passed over.
        select: Codes (``WS203``), beginnings of codes (``WS2``) or slugs; only these are reported.
        ignore: The same; these are not reported. Faults of worldsize itself always are.

    Returns:
        The report. Files that cannot be read are diagnostics in it.

    Raises:
        ValueError: A word of ``select`` or ``ignore`` is not a code, the beginning of one, or a slug.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    wanted = _wanted(select, ignore)
    context = Context(discover.root_of(listed))
    stages.settings(context, context.root)
    run = Run(context)
    for found in discover.files(listed):
        run.guarded(found)
    run.follow()
    problems = run.problems + list(engine.run(context, run.subjects))
    diagnostics = arrange(engine.diagnose(problems))
    kept = _suppressed([found for found in diagnostics if wanted(found.code)], run, wanted)
    return Report(tuple(kept), conceal.secrets(context.sources(), diagnostics), tuple(run.files))


def _suppressed(diagnostics: list[Diagnostic], run: Run, wanted: Callable[[str], bool]) -> list[Diagnostic]:
    """Apply the comments of all files, and report those that silence nothing."""
    documents = [run.context.document(path) for path in run.files]
    marked = [document for document in documents if "worldsize" in document.text]
    if not marked:
        return diagnostics
    from worldsize.diagnostics import suppress  # noqa: PLC0415 - few files have such comments

    suppressions: dict[str, list[suppress.Suppression]] = {}
    problems: list[Problem] = []
    for document in marked:
        suppressions[document.path], unusable = suppress.parse(
            document.comments, lambda word: registry.find(word) is not None, registry.names
        )
        problems += unusable
    kept = suppress.apply(diagnostics, suppressions)
    for path, found in suppressions.items():
        if path not in run.incomplete:
            problems += suppress.unused(found, lambda word: wanted(_code(word)))
    extra = [found for found in engine.diagnose(problems) if wanted(found.code)]
    return arrange([*kept, *extra])


def _code(word: str) -> str:
    entry = registry.find(word)
    return word if entry is None else entry.code


def _wanted(select: Sequence[str], ignore: Sequence[str]) -> Callable[[str], bool]:
    """Whether a code is to be reported."""
    selected = _prefixes(select)
    ignored = _prefixes(ignore)

    def wanted(code: str) -> bool:
        if code == INTERNAL:
            return True
        return (not selected or code.startswith(selected)) and not (ignored and code.startswith(ignored))

    return wanted


def _prefixes(words: Sequence[str]) -> tuple[str, ...]:
    prefixes = []
    for word in words:
        entry = registry.find(word)
        if entry is not None:
            prefixes.append(entry.code)
        elif word and any(rule.code.startswith(word.upper()) for rule in registry.entries()):
            prefixes.append(word.upper())
        else:
            advice = did_you_mean(word, registry.names()) or "`worldsize explain` lists all rules"
            raise ValueError(f"`{word}` is not the code or slug of a rule: {advice}")
    return tuple(prefixes)
