"""What a job left behind: the roots that its files are browsed from.

A path of the page begins with the key of its root: ``artifacts``, ``outputs`` of a pipeline, or the name of
a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worldsize.serving.home import Home
from worldsize.serving.jobs.artifacts import artifacts_folder
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.page.queries.files import Entry, list_folder, resolve_inside
from worldsize.serving.page.queries.logs import run_folder, step_names

ARTIFACTS, OUTPUTS = "artifacts", "outputs"


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of a job's files, and what it is called."""

    key: str
    title: str
    folder: Path


def list_roots(home: Home, job: JobRecord) -> list[Root]:
    """The folders of a job's files that are not empty."""
    roots = [root for root in _roots(home, job) if list_folder(home, root.folder)]
    return sorted(roots, key=lambda root: root.key == ARTIFACTS)


def _roots(home: Home, job: JobRecord) -> list[Root]:
    roots = [Root(ARTIFACTS, "Logs and artifacts", artifacts_folder(home, job.name))]
    folder = run_folder(home, job)
    if folder is None:
        return roots
    if job.parent is None and job.step is None:
        roots.append(Root(OUTPUTS, "Outputs of the pipeline", folder.outputs))
    steps = [job.step] if job.step else step_names(home, job)
    single = len(steps) == 1
    for step in steps:
        title = "Outputs" if single else f"Outputs of {step}"
        roots.append(Root(f"step-{step}", title, folder.step(step).outputs))
    return roots


def list_entries(home: Home, job: JobRecord, path: str) -> list[Entry]:
    """The entries of a folder; each has its path with the key of its root."""
    key, _, rest = path.partition("/")
    for root in _roots(home, job):
        if root.key == key:
            found = list_folder(home, root.folder, rest)
            return [Entry(each.name, f"{key}/{each.path}", each.folder, each.size) for each in found]
    return []


def find_output(home: Home, job: JobRecord, path: str) -> Path | None:
    """The real path of a file or folder of a job; None if there is none."""
    key, _, rest = path.strip("/").partition("/")
    for root in (*_roots(home, job), *_log_roots(home, job)):
        if root.key == key:
            return resolve_inside(home, root.folder, rest)
    return None


def _log_roots(home: Home, job: JobRecord) -> Iterator[Root]:
    folder = run_folder(home, job)
    if folder is not None:
        steps = [job.step] if job.step else step_names(home, job)
        yield from (Root(f"log-{step}", f"Logs of {step}", folder.step(step).logs) for step in steps)
