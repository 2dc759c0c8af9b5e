"""Reads the sweep of a step: what was tried, in which order, and the winner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worldsize.reporting.curves import read_number
from worldsize.reporting.model import SweepFacts, TrialFacts, read_mapping
from worldsize.running.record.history import RunRecord
from worldsize.running.record.json_files import is_file_name, read_json

FILE = "sweep.json"
MAX_TRIALS = 10_000


def read_sweeps(run: RunRecord) -> list[SweepFacts]:
    """The sweeps of a run: by what each has written at its end, else by the events until now."""
    names = filter(is_file_name, run.steps)
    sweeps = [_read_written(run.root, name) or _read_events(name, run.events) for name in names]
    return [sweep for sweep in sweeps if sweep is not None]


def _read_written(root: Path, step: str) -> SweepFacts | None:
    document = read_json(root / "steps" / step / FILE)
    if document is None:
        return None
    listed = document.get("trials")
    listed = listed[:MAX_TRIALS] if isinstance(listed, list) else []
    trials = [_read_trial(trial) for trial in listed if isinstance(trial, Mapping)]
    best = document.get("best")
    return SweepFacts(
        step=step,
        metric=str(document.get("metric") or ""),
        goal=str(document.get("goal") or ""),
        best=str(best) if best is not None else None,
        trials=trials,
    )


def _read_events(step: str, events: Sequence[Mapping[str, Any]]) -> SweepFacts | None:
    """A sweep that has not ended, by its trials; None for a step without any."""
    trials: dict[str, Mapping[str, Any]] = {}
    for event in events:
        name = str(event.get("step"))
        if name.rpartition(".")[0] != step or len(trials) >= MAX_TRIALS:
            continue
        if event["event"] in ("trial_made", "trial_ended"):
            trials[name] = {"state": "running", **event, "name": name}
    return SweepFacts(step, "", "", None, list(map(_read_trial, trials.values()))) if trials else None


def _read_trial(document: Mapping[str, Any]) -> TrialFacts:
    return TrialFacts(
        name=str(document.get("name") or document.get("step") or ""),
        state=str(document.get("state") or ""),
        values={str(name): str(drawn) for name, drawn in read_mapping(document.get("parameters")).items()},
        value=read_number(document.get("value")),
    )


def rank_trials(sweep: SweepFacts) -> list[TrialFacts]:
    """The trials by their values, the best first; those without one come last."""
    if not sweep.goal:
        return list(sweep.trials)
    sign = -1 if sweep.goal.lower() == "maximize" else 1
    return sorted(sweep.trials, key=lambda trial: (trial.value is None, sign * (trial.value or 0.0)))
