"""Reads a job of a workspace in Azure for its report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from worldsize.remote.jobs import RemoteJob
from worldsize.reporting.curves import MAX_CURVES, make_curves, parse_reports, read_rank_samples
from worldsize.reporting.measures import measure_training
from worldsize.reporting.model import Attempt, Period, Picture, RunFacts, StepFacts
from worldsize.reporting.quantities import compare_with_plan
from worldsize.reporting.read_run import LAST_LINES, MAX_PICTURE_BYTES, PICTURES, is_png
from worldsize.running.record.history import StepRecord

NOTE = "Logs are in the workspace, and are not part of this page."
RANK_TIMES = "rank_times.jsonl"  # what trainers log at the end of a training
MAX_BYTES = 4_000_000  # of a file that is read from the workspace


def read_job(job: RemoteJob) -> RunFacts:
    """What the workspace tells of a job. Its steps' metrics are read with their histories."""
    record = job.record
    seeds = [
        f"{step.name}.{name} {value}"
        for step in record.steps.values()
        for name, value in step.parameters.items()
        if name == "seed" or name.endswith("_seed")
    ]
    return RunFacts(
        record=record,
        steps=_read_steps(job, record.steps.values()),
        read_at=datetime.now(timezone.utc),
        links=job.links(),
        outputs=job.outputs(),
        environment=[("seeds", ", ".join(seeds))] if seeds else [],
        notes=[NOTE],
    )


def _read_steps(job: RemoteJob, steps: Iterable[StepRecord]) -> dict[str, StepFacts]:
    """The steps, with pictures as long as there are not too many bytes."""
    found, left = {}, MAX_PICTURE_BYTES
    for step in steps:
        facts = _read_step(job, step)
        kept = []
        for picture in facts.pictures:
            if len(picture.data) <= left:
                left -= len(picture.data)
                kept.append(picture)
        found[step.name] = replace(facts, pictures=kept)
    return found


def _read_step(job: RemoteJob, step: StepRecord) -> StepFacts:
    curves = make_curves(job.histories(step, MAX_CURVES))
    metrics = dict(job.metrics(step))
    attempts = _attempts(step)
    parameters = {**job.parameters(step), **step.parameters}
    files = {
        name: content
        for name, content in job.artifacts(step, [*PICTURES, RANK_TIMES]).items()
        if len(content) <= MAX_BYTES
    }
    lines = files.get(RANK_TIMES, b"").decode("utf-8", errors="replace").splitlines()
    reports = list(parse_reports(lines))
    return StepFacts(
        record=step,
        attempts=attempts,
        metrics={} if curves else metrics,
        logged=metrics,
        outputs=job.step_outputs(step),
        curves=curves,
        ranks=read_rank_samples(reports),
        pictures=[
            Picture(title, files[name])
            for name, title in PICTURES.items()
            if name in files and is_png(files[name])
        ],
        quantities=compare_with_plan(
            {}, parameters, attempts, metrics, curves, trained=measure_training(reports), machine=""
        ),
        last_lines=job.last_lines(step, LAST_LINES),
    )


def _attempts(step: StepRecord) -> list[Attempt]:
    if step.started is None:
        return []
    end = step.started + timedelta(seconds=step.seconds)
    if step.state == "running":
        end = datetime.now(timezone.utc)
    return [Attempt(Period(step.started.timestamp(), end.timestamp()), step.state, {}, step.processes)]
