"""The trials of a sweep as a table, the winner first, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from worldsize.base.wording import plural, shorten, show_number
from worldsize.cli import common
from worldsize.reporting.sweeps import rank_trials

if TYPE_CHECKING:
    from worldsize.reporting.model import SweepFacts

MAX_TRIALS = 100  # that are printed
LONGEST_VALUE = 30


def render(sweep: SweepFacts, margin: str) -> Iterator[str]:
    """The lines of the table."""
    trials = rank_trials(sweep)
    names = list(dict.fromkeys(name for trial in trials for name in trial.values))
    rows = [
        (
            "*" if trial.name == sweep.best else "",
            trial.name.rpartition(".")[2],
            trial.state,
            "" if trial.value is None else show_number(trial.value),
            *(shorten(trial.values.get(name, ""), LONGEST_VALUE) for name in names),
        )
        for trial in trials[:MAX_TRIALS]
    ]
    headings = ("", "trial", "state", sweep.metric or "value", *names)
    right = frozenset(range(3, len(headings)))
    yield from (f"{margin}{line}".rstrip() for line in common.format_table(headings, rows, right=right))
    if len(trials) > MAX_TRIALS:
        yield f"{margin}and {plural(len(trials) - MAX_TRIALS, 'more trial')}"
    if sweep.best:
        yield f"{margin}* the best of {plural(len(trials), 'trial')}: {sweep.goal or 'best'} {sweep.metric}"


def document(sweep: SweepFacts) -> dict[str, Any]:
    """The sweep as plain data."""
    return {
        "metric": sweep.metric,
        "goal": sweep.goal,
        "best": sweep.best,
        "trials": [
            {"name": trial.name, "state": trial.state, "value": trial.value, "parameters": dict(trial.values)}
            for trial in sweep.trials
        ],
    }
