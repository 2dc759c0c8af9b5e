"""The pipelines that are retrained in a workspace: by the tags of their jobs, and by looks in its home."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from msgspec.structs import replace

from worldsize.retraining.facts import ROWS_TAG, TAG
from worldsize.retraining.history import add_documents, list_pipelines, read_history
from worldsize.running.record.history import load_run
from worldsize.running.record.models import select_tags
from worldsize.running.show.firings import Firing, Retrained
from worldsize.serving.database import mapping_of, milliseconds_of, text_of, use_each
from worldsize.serving.jobs.records import JobRecord, read_job_row, select_jobs
from worldsize.serving.workspace import Workspace

LIMIT = 400  # jobs
_STATES = {"Failed": "failed", "Canceled": "interrupted", "Completed": "failed"}  # without a verdict


def find_retrained(workspace: Workspace, model: str) -> Iterator[Retrained]:
    """The pipelines that register a model, with their looks."""
    home = workspace.home.root
    pipelines = {name: read_history(home, name) for name in list_pipelines(home)}
    rows = select_jobs(workspace.database, tag=TAG, archived=(False, True), limit=LIMIT)
    for job in use_each("job", rows, read_job_row):
        name = text_of(mapping_of(job.properties, "tags"), TAG)
        firing, registered = _read_firing(workspace, job)
        known = pipelines.get(name) or Retrained(name)
        links = {**known.links, job.name: f"/jobs/{job.name}"}
        pipelines[name] = replace(
            known, firings=[*known.firings, firing], model=known.model or registered, links=links
        )
    for retrained in pipelines.values():
        if retrained.model == model:
            yield replace(retrained, firings=sorted(retrained.firings, key=lambda firing: firing.time))


def _read_firing(workspace: Workspace, job: JobRecord) -> tuple[Firing, str | None]:
    tags = mapping_of(job.properties, "tags")
    rows = [int(text) for text in select_tags(tags, ROWS_TAG).values() if text.isdecimal()]
    firing = Firing(
        milliseconds_of(job.created) / 1000,
        _STATES.get(job.status, "running"),
        job.error_message or "",
        run=job.name,
        why=text_of(tags, f"{TAG}.reason"),
        rows=sum(rows) if rows else None,
        seconds=job.seconds(),
    )
    with contextlib.suppress(OSError):  # without its folder, what the job itself says
        return add_documents(firing, load_run(workspace.home.runs / job.root))
    return firing, None
