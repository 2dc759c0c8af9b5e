"""Reads a job of a workspace in Azure for its report."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from worldsize.remote.jobs import RemoteJob
from worldsize.reporting.curves import MAX_CURVES, make_curves
from worldsize.reporting.model import Attempt, Period, RunFacts, StepFacts
from worldsize.reporting.quantities import compare_with_plan
from worldsize.reporting.read_run import LAST_LINES
from worldsize.running.record.history import StepRecord

NOTE = "Logs, pictures and the times of ranks are in the workspace, and are not part of this page."


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
        steps={name: _read_step(job, step) for name, step in record.steps.items()},
        read_at=datetime.now(timezone.utc),
        links=job.links(),
        outputs=job.outputs(),
        environment=[("seeds", ", ".join(seeds))] if seeds else [],
        notes=[NOTE],
    )


def _read_step(job: RemoteJob, step: StepRecord) -> StepFacts:
    curves = make_curves(job.histories(step, MAX_CURVES))
    metrics = dict(job.metrics(step))
    attempts = _attempts(step)
    parameters = {**job.parameters(step), **step.parameters}
    return StepFacts(
        record=step,
        attempts=attempts,
        metrics={} if curves else metrics,
        logged=metrics,
        outputs=job.step_outputs(step),
        curves=curves,
        quantities=compare_with_plan({}, parameters, attempts, metrics, curves, machine=""),
        last_lines=job.last_lines(step, LAST_LINES),
    )


def _attempts(step: StepRecord) -> list[Attempt]:
    if step.started is None:
        return []
    end = step.started + timedelta(seconds=step.seconds)
    if step.state == "running":
        end = datetime.now(timezone.utc)
    return [Attempt(Period(step.started.timestamp(), end.timestamp()), step.state, {}, step.processes)]
