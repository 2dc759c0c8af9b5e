"""Watches a job of a workspace until it ends, with the view of a run here, and says how it ended."""

from __future__ import annotations

import time
from collections.abc import Iterator

from worldsize.base.wording import format_duration
from worldsize.remote import jobs
from worldsize.remote.errors import RemoteError, explain_errors
from worldsize.remote.jobs import RemoteJob, RemoteStep
from worldsize.remote.logs import ENDED, seconds_of, step_state
from worldsize.remote.rest import Rest
from worldsize.running.model.results import Status, View
from worldsize.running.show.views import describe_registration, format_step

FIRST_SECONDS, LONGEST_SECONDS = 0.5, 5.0  # between two looks; the pause grows while nothing changes
GROWTH = 1.4
TICK_SECONDS = 0.15
_BEFORE = ("waiting", "preparing")
PATIENCE_SECONDS = 600.0  # without an answer, after which watching ends


def watch_job(rest: Rest, name: str, view: View) -> RemoteJob:
    """Show the steps of a job in a view that is entered already, until it ends; the job after its end.

    Raises:
        AzureError: The workspace has not answered for ten minutes, or refuses to.
    """
    job = jobs.read_job(rest, name)
    statuses: dict[str, Status] = {}
    pause = FIRST_SECONDS
    while True:
        changed = _update(statuses, job, view, time.monotonic())
        if job.status in ENDED:
            view.tick(statuses)
            return job
        pause = FIRST_SECONDS if changed else min(LONGEST_SECONDS, pause * GROWTH)
        until = time.monotonic() + pause
        while time.monotonic() < until:
            view.tick(statuses)
            time.sleep(TICK_SECONDS)
        job = _read_patiently(job, view)


def _read_patiently(job: RemoteJob, view: View) -> RemoteJob:
    """The job as it is now; a workspace that does not answer is asked again."""
    from azure.core.exceptions import AzureError, HttpResponseError

    deadline = time.monotonic() + PATIENCE_SECONDS
    has_warned = False
    while True:
        try:
            return jobs.refresh(job)
        except AzureError as error:
            is_refused = isinstance(error, HttpResponseError) and (error.status_code or 500) < 500
            if is_refused or time.monotonic() >= deadline:
                raise
        if not has_warned:
            view.warn("the workspace does not answer; the job goes on, and is asked for again")
        has_warned = True
        time.sleep(LONGEST_SECONDS)


def _update(statuses: dict[str, Status], job: RemoteJob, view: View, now: float) -> bool:
    """Bring the statuses up to the job; whether any state has changed."""
    changed = False
    for name, step in job.steps.items():
        status = statuses.setdefault(name, Status(name, processes=step.processes))
        begins = status.state in _BEFORE and step.run and step_state(step.run) not in _BEFORE
        if begins and step.processes > 1:
            _tell_fitted(status, job, view)
        if _advance(status, step, now):
            view.changed(status)
            changed = True
    return changed


def _tell_fitted(status: Status, job: RemoteJob, view: View) -> None:
    """Say that a step which begins runs with other processes than planned, where the workspace says so."""
    fitted = job.fitted().get(status.name)
    if fitted is not None and fitted.processes != status.processes:
        view.notice(f"{status.name}: {fitted.text}")
        status.processes = fitted.processes


def _advance(status: Status, step: RemoteStep, now: float) -> bool:
    state = step_state(step.run) if step.run else "waiting"
    seconds = seconds_of(step.run)
    if state == "running" and status.started is None:
        status.started = now - seconds
    if state in ("succeeded", "failed", "stopped") and status.state != state:
        status.started = status.started if status.started is not None else now - seconds if seconds else None
        status.seconds = seconds
    changed = status.state != state
    status.state = state
    return changed


LAST_LINES = 20


def render_result(job: RemoteJob, *, steps: bool) -> str:
    """The end of a job: what failed and why, its steps, and where its outputs are.

    A table on a terminal has shown the ``steps`` already.
    """
    record = job.record
    lines = [*_failures(job), f"job {record.id} {record.state} after {format_duration(record.seconds)}"]
    if steps:
        width = max((len(name) for name in record.steps), default=0)
        for name, step in record.steps.items():
            lines.append(f"  {format_step(name, width, step.state, step.seconds)}")
    lines += [f"  {name}: {fit.text}" for name, fit in job.fitted().items()]
    for model in job.registrations():  # with the reference by which other jobs name it
        reference = f"  azureml:{model.name}:{model.version}" if model.version is not None else ""
        lines.append(f"  model  {describe_registration(model)}{reference}")
    lines += [f"  output {name}  {place}" for name, place in job.outputs().items()]
    lines += [f"  {name}  {link}" for name, link in job.links().items()]
    return "\n".join(lines)


def _failures(job: RemoteJob) -> Iterator[str]:
    record = job.record
    failed = [step for step in record.steps.values() if step.state == "failed"]
    for step in failed:
        yield f"error: step `{step.name}` failed" + (
            f": {step.reason.splitlines()[0]}" if step.reason else ""
        )
        yield from (f"  | {line}" for line in _end_of_log(job, step.name))
        yield ""
    if record.reason:
        yield f"error: {record.reason}"


def _end_of_log(job: RemoteJob, name: str) -> list[str]:
    try:
        with explain_errors():
            return job.last_lines(job.record.steps[name], LAST_LINES)
    except RemoteError as error:  # the job's own failure is what counts
        return [f"(its log cannot be read: {error})"]
