"""How a job in a workspace ended, as text."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.base.wording import format_duration
from worldsize.remote.errors import RemoteError, explain_errors
from worldsize.remote.jobs import RemoteJob
from worldsize.running.model.results import Registration
from worldsize.running.show.summary import describe_registration

LAST_LINES = 20


def render_result(job: RemoteJob, *, steps: bool) -> str:
    """The end of a job: what failed and why, its steps, and where its outputs are.

    Args:
        job: A job that has ended.
        steps: Whether to list the steps; a table on a terminal has shown them.
    """
    record = job.record
    lines = [*_failures(job), f"job {record.id} {record.state} after {format_duration(record.seconds)}"]
    if steps:
        width = max((len(name) for name in record.steps), default=0)
        for name, step in record.steps.items():
            time = format_duration(step.seconds) if step.seconds else ""
            state = "not started" if step.state == "waiting" else step.state
            lines.append(f"  {name:<{width}}  {state:<11}  {time:>9}".rstrip())
    lines += [f"  {name}: {each.text}" for name, each in job.fitted().items()]
    lines += map(_show_model, job.registrations())
    lines += [f"  output {name}  {place}" for name, place in job.outputs().items()]
    lines += [f"  {name}  {link}" for name, link in job.links().items()]
    return "\n".join(lines)


def _show_model(model: Registration) -> str:
    """A model of the workspace, with the reference by which other jobs name it."""
    reference = f"  azureml:{model.name}:{model.version}" if model.version is not None else ""
    return f"  model  {describe_registration(model)}{reference}"


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
