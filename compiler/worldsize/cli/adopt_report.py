"""What `worldsize adopt` prints: the diff with its reasons, what is left to the author, and the proof."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from worldsize import api
from worldsize.adopting.apply import Adopted
from worldsize.adopting.model import AdoptError, Adoption, Change, Obstacle
from worldsize.adopting.proving.curves import LOOSE, TOLERANCE, ComparedStep, Comparison
from worldsize.adopting.proving.prove import PROCESSES, Failed, Proof
from worldsize.base.source import Source
from worldsize.base.wording import plural
from worldsize.documents.diagnostics.diagnostic import Diagnostic, Severity
from worldsize.documents.diagnostics.snippet import mark_controls, show_path
from worldsize.documents.diagnostics.text import render_diagnostic

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")
_CONTEXT = 2
_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m", "#": "\x1b[2m"}
_RESET = "\x1b[0m"
_ROWS = 11


def render_diff(adoption: Adoption, *, colour: bool) -> str:
    """The unified diff; above each hunk the rules that ask for it, and why."""
    name = show_path(adoption.profile.path)
    lines = [
        *difflib.unified_diff(
            adoption.source.splitlines(keepends=True),
            adoption.text.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
            n=_CONTEXT,
        )
    ]
    starts = [index for index, line in enumerate(lines) if _HUNK.match(line)]
    explained = _assign_changes(adoption.changes, [lines[index] for index in starts])
    shown: list[str] = []
    for index, line in enumerate(lines):
        if index in starts:
            reasons = map(_describe_change, explained[starts.index(index)])
            shown += [f"# {reason}" for reason in dict.fromkeys(reasons)]
        shown.append(mark_controls(line.rstrip("\r\n")))
    return "".join(f"{_paint(line, colour=colour)}\n" for line in shown)


def _paint(line: str, *, colour: bool) -> str:
    start = _COLOURS.get(line[:1]) if colour and not line.startswith(("+++", "---")) else None
    return f"{start}{line}{_RESET}" if start else line


def _describe_change(change: Change) -> str:
    return f"{change.rule}: {change.reason}" if change.rule else change.reason


def _assign_changes(changes: Sequence[Change], hunks: Sequence[str]) -> list[list[Change]]:
    """The changes of each hunk: of those that start at or before a change's line, the last."""
    firsts = [int(match[1]) for hunk in hunks if (match := _HUNK.match(hunk))]
    assigned: list[list[Change]] = [[] for _ in hunks]
    for change in changes:
        number = sum(first <= change.line for first in firsts) - 1
        if assigned:
            assigned[max(number, 0)].append(change)
    return assigned


def render_refusal(error: AdoptError, *, colour: bool) -> str:
    """Why a script cannot be adopted, with its place."""
    finding = error.finding
    return _render(finding.message, finding.span, finding.help, "error", error.source, colour=colour)


def render_obstacles(obstacles: Sequence[Obstacle], source: Source, *, colour: bool) -> str:
    """What is left to the author."""
    return "\n".join(
        _render(each.message, each.span, each.help, "warning", source, colour=colour) for each in obstacles
    )


def _render(
    message: str, span: Any, help_: str | None, severity: Severity, source: Source, *, colour: bool
) -> str:
    found = Diagnostic("", "", severity, message, span, help_)
    return render_diagnostic(found, {source.path: source}, colour=colour)


def render_proof(proof: Proof) -> str:
    """The two curves side by side, and what they say."""
    if proof.comparison is None:
        return _render_failed(proof.failed or Failed("there is no curve"))
    comparison = proof.comparison
    lines = [
        f"the original in one process, the adopted script in {PROCESSES}; global batch {proof.batch}",
        f"{'step':>6}  {'original':>11}  {'adopted':>11}  {'difference':>11}",
        *(_row(step) for step in _choose_rows(comparison.steps)),
    ]
    if comparison.steps:
        lines.append(f"{'worst':>6}  {'':>11}  {'':>11}  {comparison.worst.difference:>11.2e}")
    lines += _conclude(comparison)
    if proof.note is not None:
        lines.append(f"note: {proof.note}")
    return "".join(f"{line}\n" for line in lines)


def _row(step: ComparedStep) -> str:
    return f"{step.step:>6}  {step.original:>11.6f}  {step.adopted:>11.6f}  {step.difference:>11.2e}"


def _choose_rows(steps: Sequence[ComparedStep]) -> list[ComparedStep]:
    """At most as many as fit: the first, the last, and others at equal distances."""
    if len(steps) <= _ROWS:
        return list(steps)
    return [steps[round(index * (len(steps) - 1) / (_ROWS - 1))] for index in range(_ROWS)]


def _conclude(comparison: Comparison) -> Iterator[str]:
    count = plural(len(comparison.steps), "step")
    if comparison.verdict == "same":
        yield f"same loss curve: all {count} within {TOLERANCE}"
        return
    if comparison.verdict == "alike":
        apart = f"{100 * comparison.mean_difference:.2g} %"
        yield f"the curves differ by {apart} of the loss on average over {count}, for a known cause:"
        yield from (f"  {reason}" for reason in comparison.reasons)
        yield f"  (with a known cause, up to {LOOSE:.0%} is accepted)".replace("%", " %")
        return
    if comparison.faults:
        yield from (f"error: {fault}" for fault in comparison.faults)
        return
    first = comparison.first_outside
    step = first.step if first is not None else 1
    yield f"error: the curves differ from step {step} on by more than {TOLERANCE}"
    for reason in comparison.reasons:
        yield f"  {reason}, but that explains less than this difference"
    if not comparison.reasons:
        yield "  no cause is known: look at what the script draws at random or computes over a whole batch"


def _render_failed(failed: Failed) -> str:
    lines = [f"error: {failed.message}", *(f"  | {mark_controls(line)}" for line in failed.lines)]
    if failed.help:
        lines.append(f"  = help: {failed.help}")
    return "".join(f"{line}\n" for line in lines)


def describe_adoption(adoption: Adoption) -> dict[str, Any]:
    """The script, what changes in it and why, and what is left to the author, for programs."""
    return {
        "script": adoption.profile.path,
        "framework": adoption.profile.framework,
        "diff": render_diff(adoption, colour=False),
        "changes": [
            {"line": each.line, "rule": each.rule, "reason": each.reason} for each in adoption.changes
        ],
        "obstacles": [
            {
                "line": each.span.line,
                "column": each.span.column,
                "message": each.message,
                "help": each.help,
            }
            for each in adoption.obstacles
        ],
    }


def describe_proof(proof: Proof) -> dict[str, Any]:
    """A proof for JSON."""
    if proof.comparison is None:
        failed = proof.failed or Failed("there is no curve")
        return {"verdict": "failed", "message": failed.message, "help": failed.help, "log": [*failed.lines]}
    comparison = proof.comparison
    return {
        "verdict": comparison.verdict,
        "tolerance": TOLERANCE,
        "global_batch_size": proof.batch,
        "reasons": [*comparison.reasons, *comparison.faults],
        "note": proof.note,
        "steps": [
            {"step": each.step, "original": each.original, "adopted": each.adopted}
            for each in comparison.steps
        ],
    }


def describe_adopted(adopted: Adopted) -> dict[str, Any]:
    """Everything for programs."""
    planned = adopted.planned
    return {
        **describe_adoption(adopted.adoption),
        "proof": describe_proof(adopted.proof) if adopted.proof is not None else None,
        "spec": adopted.spec,
        "findings": [
            {
                "code": finding.code,
                "severity": finding.severity,
                "path": finding.span.path,
                "line": finding.span.line,
                "column": finding.span.column,
                "message": finding.message,
                "help": finding.help,
            }
            for finding in adopted.report.diagnostics
        ],
        "plan": api.plan_document(planned.plan) if planned is not None else None,
        "written": list(map(str, adopted.written)),
    }
