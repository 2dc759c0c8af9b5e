"""What MLflow knows of the runs of jobs, which bear the jobs' names, and of the versions of models."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from worldsize.serving.home import Home
from worldsize.serving.tracking.reader import (
    open_tracking,
    read_latest_metrics,
    read_metrics,
    read_params,
    read_tags,
)
from worldsize.showing.curves import Curve, prepare_curves

MAX_POINTS, MOST_DRAWN = 1000, 20_000  # points of one curve that is drawn, and of one chart
_INTERNAL = ("mlflow.", "worldsize.")  # tags of the tools themselves, which the page says in its own words
_ALIASES = "SELECT version, alias FROM registered_model_aliases WHERE name = ? ORDER BY alias"
_STAGES = "SELECT version, current_stage AS stage FROM model_versions WHERE name = ?"


@dataclass(frozen=True, slots=True)
class Tracked:
    """What MLflow knows of one run; metrics by their last values."""

    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


def read_run(home: Home, run: str) -> Tracked:
    """The parameters, last metrics and tags of a run; empty if MLflow does not know it."""
    tags = {name: value for name, value in read_tags(home, run).items() if not name.startswith(_INTERNAL)}
    return Tracked(read_params(home, run), read_latest_metrics(home, run), tags)


def read_runs(home: Home, ids: Mapping[str, str]) -> dict[str, Tracked]:
    """What MLflow knows of several jobs, by their names; ``ids`` has the run of each."""
    return {job: read_run(home, run) for job, run in ids.items()}


def read_curves(home: Home, shown: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, dict[str, Curve]]:
    """The curves of all metrics of some jobs.

    Args:
        home: The workspace's.
        shown: The text to show of each job, by its name.
        ids: The run of each in MLflow.

    Returns:
        By metric, and by the texts of the jobs, the steps and values: those that are finite, where there is
        more than one, thinned to ``MAX_POINTS``.
    """
    most = max(50, MOST_DRAWN // max(1, len(shown)))
    curves: dict[str, dict[str, Curve]] = {}
    for job, text in shown.items():
        logged = {
            metric: [(float(each.step), each.value) for each in values]
            for metric, values in read_metrics(home, ids[job]).items()
        }
        for metric, points in prepare_curves(logged, min(most, MAX_POINTS)).items():
            curves.setdefault(metric, {})[text] = points
    return curves


def read_marks(home: Home, model: str) -> dict[str, list[str]]:
    """The aliases of a model's versions in MLflow's registry, as ``@alias``, and their stages."""
    marks: dict[str, list[str]] = {}
    with open_tracking(home) as connection:
        if connection is None:
            return {}
        try:
            for row in connection.execute(_ALIASES, (model,)):
                marks.setdefault(str(row["version"]), []).append(f"@{row['alias']}")
            for row in connection.execute(_STAGES, (model,)):
                if row["stage"] not in (None, "None"):
                    marks.setdefault(str(row["version"]), []).append(row["stage"])
        except sqlite3.OperationalError:  # MLflow has not made its tables yet
            return {}
    return marks
