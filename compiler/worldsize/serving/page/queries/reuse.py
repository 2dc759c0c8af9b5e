"""Where MLflow has what a job tracked: at the job itself, or at the one whose outputs it reused."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.running.model.folder import RunFolder
from worldsize.running.reuse.store import read_original
from worldsize.serving.jobs.records import JobRecord, child_name, get_job
from worldsize.serving.page.queries.logs import run_folder
from worldsize.serving.workspace import Workspace

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
