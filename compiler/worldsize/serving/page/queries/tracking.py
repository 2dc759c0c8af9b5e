"""What MLflow knows of the runs of jobs: at the job itself, or at the one whose outputs it reused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.running.model.folder import RunFolder
from worldsize.running.reuse.store import read_original
from worldsize.serving.jobs.records import JobRecord, child_name, get_job
from worldsize.serving.page.queries.logs import run_folder
from worldsize.serving.workspace import Workspace
from worldsize.showing.curves import Curve, prepare_curves
from worldsize.tracking import runs

MAX_POINTS, MOST_DRAWN = 1000, 20_000  # points of one curve that is drawn, and of one chart
_INTERNAL = ("mlflow.", "worldsize.")  # tags of the tools themselves, which the page says in its own words


@dataclass(frozen=True, slots=True)
class Tracked:
    """What MLflow knows of one run; metrics by their last values."""

    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


def read_run(home: Path, run: str) -> Tracked:
    """The parameters, last metrics and tags of a run; empty if MLflow does not know it."""
    tags = {
        name: value for name, value in runs.read_tags(home, run).items() if not name.startswith(_INTERNAL)
    }
    return Tracked(runs.read_params(home, run), runs.read_latest_metrics(home, run), tags)


def read_runs(home: Path, ids: Mapping[str, str]) -> dict[str, Tracked]:
    """What MLflow knows of several jobs, by their names; ``ids`` has the run of each."""
    return {job: read_run(home, run) for job, run in ids.items()}


def read_curves(home: Path, shown: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, dict[str, Curve]]:
    """The curves of all metrics of some jobs.

    Args:
        home: The root of the workspace's.
        shown: The text to show of each job, by its name.
        ids: The run of each in MLflow.

    Returns:
        By metric, and by the texts of the jobs, the steps and values: those that are finite, where there is
        more than one, thinned to ``MAX_POINTS``.
    """
    most = max(50, MOST_DRAWN // max(1, len(shown)))
    curves: dict[str, dict[str, Curve]] = {}
    for job, text in shown.items():
        logged = runs.read_curves(home, ids[job])
        for metric, points in prepare_curves(logged, min(most, MAX_POINTS)).items():
            curves.setdefault(metric, {})[text] = points
    return curves


MAX_HOPS = 20  # a step may reuse one that reused another


def tracked_ids(workspace: Workspace, jobs: Iterable[JobRecord]) -> dict[str, str]:
    """The id of the run in MLflow that shows each job, by the name of the job."""
    return {job.name: _tracked_id(workspace, job) for job in jobs}


def _tracked_id(workspace: Workspace, job: JobRecord) -> str:
    folder = run_folder(workspace.home, job)
    if folder is None or job.step is None or job.parent is None:
        return job.name
    root, step = job.root, job.step
    for _ in range(MAX_HOPS):
        original = read_original(RunFolder(workspace.home.runs / root).step(step))
        if original is None:
            break
        root, step = original.run, original.step
    name = child_name(root, step)
    return name if get_job(workspace.database, name) is not None else root  # of a job that is no pipeline
