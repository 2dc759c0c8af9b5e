"""Reads the curves of a training: from MLflow's database, else from the reports for the live view."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from worldsize.base import untrusted
from worldsize.reporting.model import RankSample
from worldsize.serving.home import Home
from worldsize.serving.tracking.reader import open_tracking
from worldsize.showing.curves import Curve, is_finite, prepare_curves

MAX_POINTS = 500  # of one curve
MAX_CURVES = 48  # of one step
MAX_ROWS = 1_000_000  # of one query to MLflow's database
MAX_LINES = 200_000  # of one file of reports
MAX_ATTEMPTS = 20  # of one step
MAX_SAMPLES = 200  # of the ranks' times
_LEFT_OUT = frozenset({"epoch", "validation_seconds"})
_NO_METRICS = frozenset({"step", "total_steps", "time", "trained_seconds", "slow_rank", "slow_ratio"})
_RUNS = (
    "SELECT steps.value AS step, runs.run_uuid AS id FROM runs"
    " JOIN tags AS ours ON ours.run_uuid = runs.run_uuid AND ours.key = 'worldsize.run' AND ours.value = ?"
    " JOIN tags AS steps ON steps.run_uuid = runs.run_uuid AND steps.key = 'worldsize.step'"
    " ORDER BY runs.start_time"
)
_TAGS = (
    "SELECT tags.key, tags.value FROM tags JOIN tags AS ours ON ours.run_uuid = tags.run_uuid"
    " AND ours.key = 'worldsize.run' AND ours.value = ?"
)
_METRICS = (
    "SELECT key, step, value FROM metrics WHERE run_uuid = ? AND is_nan = 0 ORDER BY key, step, timestamp"
)
_PARAMETERS = "SELECT key, value FROM params WHERE run_uuid = ?"
_LATEST = "SELECT key, value FROM latest_metrics WHERE run_uuid = ? AND is_nan = 0 ORDER BY key"


def find_tracked_steps(home: Path, run: str) -> dict[str, str]:
    """The newest run in MLflow of each step of a run, by the name of the step."""
    return {str(row["step"]): str(row["id"]) for row in _query(home, _RUNS, run)}


def read_tracked_tags(home: Path, run: str) -> dict[str, str]:
    """The tags that all MLflow runs of a run bear, such as the commit; empty if it is not tracked."""
    return {str(row["key"]): str(row["value"]) for row in _query(home, _TAGS, run)}


def read_tracked_curves(home: Path, run: str) -> dict[str, Curve]:
    """The curves that an MLflow run has logged; what a restarted training logged again counts once."""
    found: dict[str, dict[float, float]] = {}
    for row in _query(home, _METRICS, run):
        found.setdefault(str(row["key"]), {})[float(row["step"])] = float(row["value"])
    return make_curves({name: sorted(points.items()) for name, points in found.items()})


def read_tracked_values(home: Path, run: str) -> dict[str, float]:
    """The last value of each metric that an MLflow run has logged, if it is finite."""
    rows = _query(home, _LATEST, run)
    return {str(row["key"]): float(row["value"]) for row in rows if is_finite(float(row["value"]))}


def read_tracked_parameters(home: Path, run: str) -> dict[str, str]:
    """The parameters that an MLflow run has logged."""
    return {str(row["key"]): str(row["value"]) for row in _query(home, _PARAMETERS, run)}


def _query(home: Path, query: str, value: str) -> list[sqlite3.Row]:
    """The rows of a query with one value; none if the database is missing, damaged or of another kind."""
    with contextlib.suppress(sqlite3.Error), open_tracking(Home(home)) as connection:
        if connection is not None:
            return connection.execute(query, (value,)).fetchmany(MAX_ROWS)
    return []


def make_curves(found: Mapping[str, Curve]) -> dict[str, Curve]:
    """The curves that can be drawn, without those that say nothing of the training."""
    shown = {name: points for name, points in found.items() if name not in _LEFT_OUT}
    return dict(islice(prepare_curves(shown, MAX_POINTS).items(), MAX_CURVES))


def read_reports(path: Path) -> list[dict[str, Any]]:
    """The records of a step's file for the live view; what is not a record is left out."""
    with untrusted.passed_over():
        return list(parse_reports(islice(untrusted.read_lines(path), MAX_LINES)))
    return []


def read_earlier_reports(step: Path) -> list[dict[str, Any]]:
    """The records of a step's attempts before the last, the oldest first."""
    folders = sorted(step.glob("logs/attempt-*"), key=lambda each: (len(each.name), each.name))
    return [report for each in folders[-MAX_ATTEMPTS:] for report in read_reports(each / "progress.jsonl")]


def parse_reports(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The records among lines."""
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            document = json.loads(line)
            if isinstance(document, dict):
                yield document


def reported_curves(reports: Sequence[Mapping[str, Any]]) -> dict[str, Curve]:
    """The curves in the reports of a training; a validation metric counts where it changes.

    A restarted training goes back to its checkpoint: what the attempt before it did from there on is dropped.
    """
    found: dict[str, dict[float, float]] = {}
    last: dict[str, float] = {}
    newest = -math.inf
    for report in reports:
        step = _number(report.get("step"))
        if step is None:
            continue
        if step < newest:
            found = {name: {at: y for at, y in points.items() if at < step} for name, points in found.items()}
        newest = step
        for name, each in report.items():
            value = _number(each)
            if value is None or name in _NO_METRICS:
                continue
            if name.startswith("validation_") and last.get(name) == value:
                continue
            last[name] = value
            found.setdefault(name, {})[step] = value
    return make_curves({name: sorted(points.items()) for name, points in found.items()})


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
    times = [_number(each) for each in listed] if isinstance(listed, list) else []
    computed = [each for each in times if each is not None and each >= 0]
    time, trained = _number(report.get("time")), _number(report.get("trained_seconds"))
    if time is None or trained is None or not computed or len(computed) != len(times):
        return None
    return RankSample(time, trained, computed)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer of hundreds of digits
        return None
