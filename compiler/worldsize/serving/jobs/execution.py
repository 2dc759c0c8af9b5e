"""Runs a job in this process, and records how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterable, Sequence
from typing import cast

from worldsize import running
from worldsize.base.problem import Problem
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.errors import SpecError
from worldsize.running import RunError, RunOptions, RunResult
from worldsize.running.model.options import EnvironmentMode
from worldsize.running.model.results import Failure, StepResult
from worldsize.serving.database import Database
from worldsize.serving.home import Home
from worldsize.serving.jobs import artifacts, records
from worldsize.serving.jobs.outputs import publish_outputs
from worldsize.serving.jobs.process import JOB_FILE
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.reporter import Reporter

MAX_MESSAGE = 4000  # characters of an error in the database
MAX_CAUSE = 500  # of the line of a log in it
_DIED = "the run stopped for a reason of Worldsize's own; its log has the details"


def execute_job(home: Home, database: Database, name: str, environment: str) -> None:
    """Run a job that this process has claimed, and write its end into the database.

    Args:
        home: The workspace's home.
        database: Its database.
        name: The job.
        environment: What interprets the steps: ``current``, ``isolated`` or ``docker``.
    """
    job = records.get_job(database, name)
    assert job is not None
    reporter = Reporter(home, database, job)
    root, folder = home.root.resolve(), home.jobs.resolve() / name
    os.chdir(folder)  # messages name files as they lie in it
    try:
        result = running.run(
            JOB_FILE,
            # Azure ML reuses the steps of pipelines only.
            RunOptions(environment=cast("EnvironmentMode", environment), force=job.type != "Pipeline"),
            runs_dir=root,
            view=reporter,
            run_id=name,
            name_step=reporter.name,
        )
    except RunError as error:
        refuse_job(home, database, job, describe_problems(error.problems))
    except SpecError as error:
        refuse_job(home, database, job, describe_problems(error.diagnostics))
    except Exception as error:  # the clients of the workspace wait for an end, whatever happens
        traceback.print_exc()
        refuse_job(home, database, job, f"{type(error).__name__}: {error}; {_DIED}")
    else:
        conclude_job(home, database, job, result)


def describe_problems(problems: Iterable[Problem | Diagnostic]) -> str:
    """Why a job cannot run here: a line for each problem, without its place in YAML that nobody wrote."""
    return "\n".join(each.message + (f" ({each.help})" if each.help else "") for each in problems)


def refuse_job(home: Home, database: Database, job: JobRecord, message: str) -> None:
    """Record that a job could not start, in its log too."""
    log = {"Pipeline": artifacts.PIPELINE_LOG, "Sweep": artifacts.SWEEP_LOG}.get(job.type)
    with contextlib.suppress(OSError):
        artifacts.append_log(home, job.name, log or artifacts.COMMAND_LOG, f"{message}\n")
    end_job(database, job, "Failed", ("UserError", message[:MAX_MESSAGE]))


def conclude_job(home: Home, database: Database, job: JobRecord, result: RunResult) -> None:
    """Record how the run of a job ended; outputs with a name become assets first."""
    current = records.get_job(database, job.name)
    canceled = current is not None and current.status == "CancelRequested"
    for step in result.steps.values():
        if step.failure is not None and step.name != job.step:
            child = records.child_name(job.name, step.name)
            error = ("UserError", describe_failure(step.failure))
            records.set_error(database, child, *error)
        if step.best is not None:
            _record_best(database, job, step)
    publish_outputs(home, database, job, result)
    if result.state == "succeeded":
        end_job(database, job, "Completed", None)
    elif canceled or result.state == "interrupted":
        end_job(database, job, "Canceled", None)
    else:
        failure = result.failure
        message = describe_failure(failure) if failure is not None else "a step of the job failed"
        failed = next((s.name for s in result.steps.values() if s.failure is failure and failure), None)
        if job.step is None and failed is not None:
            message = f"Step `{failed}`: {message}"
        end_job(database, job, "Failed", ("UserError", message))


def _record_best(database: Database, job: JobRecord, step: StepResult) -> None:
    """Write into a sweep's properties which trial was the best, as the service does."""
    name = job.name if step.name == job.step else records.child_name(job.name, step.name)
    sweep = records.get_job(database, name)
    if sweep is None or step.best is None:
        return
    trial = records.child_name(job.name, step.best)
    best = {"best_child_run_id": trial, "best_data_container_id": f"dcid.{trial}", "score": str(step.score)}
    given = {**(sweep.properties.get("properties") or {}), **best}
    records.update_job(database, name, properties={**sweep.properties, "properties": given})


def end_job(database: Database, job: JobRecord, status: str, error: tuple[str, str] | None) -> None:
    """Record the end of a job; those below it that have not started are canceled."""
    with database.transaction():
        for child in records.descendants(database, job.name):
            if not child.has_ended:
                records.set_status(database, child.name, "Canceled")
        records.set_status(database, job.name, status, error=error)


_EXCEPTION = re.compile(
    r"(?:\[rank\d+\]:\s*)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b.*|error: .+)"
)


def describe_failure(failure: Failure) -> str:
    """A failure as clients show it: one sentence with its cause, not the log that they have shown already."""
    parts = [failure.message]
    cause = _find_exception(failure.last_lines)
    if cause and cause not in failure.message:
        parts[0] += f": {cause}"
    return "; ".join([*parts, *failure.notes])[:MAX_MESSAGE]


def _find_exception(lines: Sequence[str]) -> str | None:
    """The last exception or error that a log ends with; without one its last line, which may say why."""
    matches = [match[1] for line in lines if (match := _EXCEPTION.match(line)) is not None]
    if matches:
        return matches[-1].rstrip()[:MAX_CAUSE]
    return next((line.strip()[:MAX_CAUSE] for line in reversed(lines) if line.strip()), None)
