"""Reads curves and last metrics of runs: from MLflow's database, else from reports for the live view."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from worldsize.base import untrusted
from worldsize.reporting.model import RankSample
from worldsize.running.launch.logs import by_number
from worldsize.running.record.details import LocalDetails, name_values
from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.running.record.json_files import parse_object
from worldsize.running.reuse.store import find_original
from worldsize.showing.curves import Curve, is_finite, prepare_curves
from worldsize.tracking.runs import find_steps, read_latest_metrics

Value = TypeVar("Value")

MAX_POINTS = 500  # of one curve
MAX_CURVES = 48  # of one step
MAX_LINES = 200_000  # of one file of reports
MAX_ATTEMPTS = 20  # of one step
MAX_SAMPLES = 200  # of the ranks' times
_LEFT_OUT = frozenset({"epoch", "validation_seconds"})
_NO_METRICS = frozenset({"step", "total_steps", "time", "trained_seconds", "slow_rank", "slow_ratio"})


def read_tracked(read: Callable[[Path, str], dict[str, Value]], home: Path, run: str) -> dict[str, Value]:
    """What a function of ``tracking.runs`` reads; nothing if the database is damaged or of another kind."""
    with contextlib.suppress(sqlite3.Error):
        return read(home, run)
    return {}


def read_tracked_values(home: Path, run: str) -> dict[str, float]:
    """The last value of each metric that an MLflow run has logged, if it is finite."""
    values = read_tracked(read_latest_metrics, home, run)
    return {name: value for name, value in values.items() if is_finite(value)}


def make_curves(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """The curves that can be drawn, without those that say nothing of the training."""
    shown = {name: points for name, points in curves.items() if name not in _LEFT_OUT}
    return dict(islice(prepare_curves(shown, MAX_POINTS).items(), MAX_CURVES))


def read_reports(path: Path) -> list[dict[str, Any]]:
    """The records of a step's file for the live view; what is not a record is left out."""
    with untrusted.passed_over():
        return list(parse_reports(islice(untrusted.read_lines(path), MAX_LINES)))
    return []


def read_earlier_reports(step: Path) -> list[dict[str, Any]]:
    """The records of a step's attempts before the last, the oldest first."""
    folders = sorted(step.glob("logs/attempt-*"), key=lambda folder: by_number(folder.name))
    return [
        report for folder in folders[-MAX_ATTEMPTS:] for report in read_reports(folder / "progress.jsonl")
    ]


def parse_reports(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The records among lines."""
    return (document for document in map(parse_object, lines) if document is not None)


def reported_curves(reports: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """The curves in the reports of a training; a validation metric counts where it changes.

    A restarted training goes back to its checkpoint: what the attempt before it did from there on is dropped.
    """
    curves: dict[str, dict[float, float]] = {}
    last: dict[str, float] = {}
    newest = -math.inf
    for report in reports:
        step = read_number(report.get("step"))
        if step is None:
            continue
        if step < newest:
            curves = {
                name: {at: y for at, y in points.items() if at < step} for name, points in curves.items()
            }
        newest = step
        for name, reported in report.items():
            value = read_number(reported)
            if value is None or name in _NO_METRICS:
                continue
            if name.startswith("validation_") and last.get(name) == value:
                continue
            last[name] = value
            curves.setdefault(name, {})[step] = value
    return make_curves({name: sorted(points.items()) for name, points in curves.items()})


def read_rank_samples(reports: Sequence[Mapping[str, Any]]) -> list[RankSample]:
    """The times of ranks in the reports of a training, which grow; those before a restart are left out."""
    samples: list[RankSample] = []
    for report in reports:
        sample = _rank_sample(report)
        if sample is None:
            continue
        if samples and (sample.trained < samples[-1].trained or len(sample.computed) != samples[-1].ranks):
            samples.clear()
        samples.append(sample)
    if len(samples) <= MAX_SAMPLES:
        return samples
    stride = (len(samples) - 1) / (MAX_SAMPLES - 1)
    return [samples[round(index * stride)] for index in range(MAX_SAMPLES)]


def _rank_sample(report: Mapping[str, Any]) -> RankSample | None:
    listed = report.get("computed_seconds")
    times = [read_number(seconds) for seconds in listed] if isinstance(listed, list) else []
    computed = [seconds for seconds in times if seconds is not None and seconds >= 0]
    time, trained = read_number(report.get("time")), read_number(report.get("trained_seconds"))
    if time is None or trained is None or not computed or len(computed) != len(times):
        return None
    return RankSample(time, trained, computed)


def read_number(value: Any) -> float | None:
    """A finite number of a document of JSON; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None


class LoggedDetails(LocalDetails):
    """The details of a run of this machine, with the metrics that its steps have logged to MLflow."""

    @cached_property
    def logged(self) -> Mapping[str, Mapping[str, float]]:
        """The last value of each logged metric by step; those of the original where a step was reused."""
        home = self._run.root.absolute().parent.parent
        originals = {name: find_original(self._run.root, name) for name in self._run.steps}
        runs = {original.run for original in originals.values()}
        tracked = {run: read_tracked(find_steps, home, run) for run in runs}
        return {
            name: read_tracked_values(home, tracked[original.run][original.step])
            for name, original in originals.items()
            if original.step in tracked[original.run]
        }

    def metrics(self, step: StepRecord) -> Mapping[str, float]:
        """What the step has written as its metrics; if it has written none, what it has logged."""
        return super().metrics(step) or self.logged.get(step.name, {})

    def has_written(self, step: StepRecord) -> bool:
        """Whether the step has written its metrics itself."""
        return bool(super().metrics(step))


def read_run_metrics(run: RunRecord) -> dict[str, float]:
    """The last value of each metric by name, and by ``step.name``; of several steps the last one counts.

    What a step wrote to its ``metrics.json`` counts more than what was logged.
    """
    details = LoggedDetails(run)
    written = {name: details.metrics(step) for name, step in run.steps.items()}
    return name_values([*details.logged.items(), *written.items()])
