"""The program that runs one job: ``python -m worldsize.serving.jobs.execution HOME NAME``.

It writes the states of the job and of those below it into the workspace's database, whether or not the server
is there. The job is claimed by one process only: the one that enters its id into a row without one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from worldsize.base.problem import Problem
from worldsize.documents.diagnostics.diagnostic import Diagnostic
from worldsize.documents.errors import SpecError
from worldsize.running import api
from worldsize.running.model.errors import RunError
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.options import EnvironmentMode, RunOptions
from worldsize.running.model.results import Failure, RunResult, Status, StepResult
from worldsize.serving.database import Database, mapping_of
from worldsize.serving.home import Home
from worldsize.serving.jobs import job_files, records
from worldsize.serving.jobs.job_files import publish_outputs
from worldsize.serving.jobs.process import JOB_FILE, AlreadyRunsError, hold_job
from worldsize.serving.jobs.records import JobRecord, child_name, child_record

if TYPE_CHECKING:
    from typing_extensions import Self


MAX_MESSAGE = 4000  # characters of an error in the database
MAX_CAUSE = 500  # of the line of a log in it
_LOGS = {"Pipeline": job_files.PIPELINE_LOG, "Sweep": job_files.SWEEP_LOG}
_DIED = "the run stopped for a reason of Worldsize's own; its log has the details"


def execute_job(home: Home, database: Database, name: str, environment: EnvironmentMode | None) -> None:
    """Run a job that this process has claimed, and write its end into the database."""
    job = records.get_job(database, name)
    assert job is not None
    reporter = Reporter(home, database, job)
    root, folder = home.root.resolve(), home.jobs.resolve() / name
    os.chdir(folder)  # messages name files as they lie in it
    try:
        result = api.run(
            JOB_FILE,
            # Azure ML reuses the steps of pipelines only.
            RunOptions(environment=environment, force=job.type != "Pipeline"),
            runs_dir=root,
            view=reporter,
            run_id=name,
            name_step=reporter.name,
            checked=True,
        )
    except RunError as error:
        _refuse_job(home, database, job, _describe_problems(error.problems))
    except SpecError as error:
        _refuse_job(home, database, job, _describe_problems(error.diagnostics))
    except Exception as error:  # the clients of the workspace wait for an end, whatever happens
        traceback.print_exc()
        _refuse_job(home, database, job, f"{type(error).__name__}: {error}; {_DIED}")
    else:
        _conclude_job(home, database, job, result)


def _describe_problems(problems: Iterable[Problem | Diagnostic]) -> str:
    """Why a job cannot run here: a line for each problem, without its place in YAML that nobody wrote."""
    return "\n".join(problem.message + (f" ({problem.help})" if problem.help else "") for problem in problems)


def _refuse_job(home: Home, database: Database, job: JobRecord, message: str) -> None:
    """Record that a job could not start, in its log too."""
    with contextlib.suppress(OSError):
        job_files.append_log(home, job.name, _LOGS.get(job.type, job_files.COMMAND_LOG), f"{message}\n")
    end_job(database, job, "Failed", ("UserError", message[:MAX_MESSAGE]))


def _conclude_job(home: Home, database: Database, job: JobRecord, result: RunResult) -> None:
    """Record how the run of a job ended; outputs with a name become assets first."""
    current = records.get_job(database, job.name)
    canceled = current is not None and current.status == "CancelRequested"
    for step in result.steps.values():
        if step.failure is not None and step.name != job.step:
            error = ("UserError", describe_failure(step.failure))
            records.update_job(database, child_name(job.name, step.name), error=error)
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
    name = job.name if step.name == job.step else child_name(job.name, step.name)
    sweep = records.get_job(database, name)
    if sweep is None or step.best is None:
        return
    trial = child_name(job.name, step.best)
    best = {"best_child_run_id": trial, "best_data_container_id": f"dcid.{trial}", "score": str(step.score)}
    properties = {**(sweep.properties.get("properties") or {}), **best}
    records.update_job(database, name, properties={**sweep.properties, "properties": properties})


def end_job(database: Database, job: JobRecord, status: str, error: tuple[str, str] | None) -> None:
    """Record the end of a job; those below it that have not started are canceled."""
    with database.transaction():
        for child in records.descendants(database, job.name):
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


STATES = {
    "waiting": "NotStarted",
    "preparing": "Preparing",
    "running": "Running",
    "succeeded": "Completed",
    "reused": "Completed",
    "failed": "Failed",
    "stopped": "Canceled",
}
_VERBS = {"Running": "started", "Completed": "completed", "Failed": "failed", "Canceled": "canceled"}


class Reporter:
    """The view of the run of a job, ``root``."""

    def __init__(self, home: Home, database: Database, root: JobRecord) -> None:
        self._home, self._database, self._root = home, database, root
        self._folder = RunFolder(home.runs / root.name)
        below = records.descendants(database, root.name)
        self._jobs = {job.step: job for job in below if job.step is not None}
        self._running: dict[str, str] = {}  # names of jobs whose logs may still begin, by their steps

    def name(self, step: str) -> str:
        """The job that a step of the run is."""
        return self._root.name if step == self._root.step else child_name(self._root.name, step)

    def notice(self, text: str) -> None:
        """Write a notice, such as with how many processes a step runs here, to the log of the job."""
        self._log(text, job_files.NOTICES_LOG)

    def warn(self, text: str) -> None:
        """Write a warning to the same log."""
        self._log(f"Warning: {text}", job_files.NOTICES_LOG)

    def changed(self, status: Status) -> None:
        """Write the state of a step."""
        state, name = STATES[status.state], self.name(status.name)
        if state == "Running":
            self._running[status.name] = name
            self._link(status, name)
        elif state in records.ENDED:
            self._running.pop(status.name, None)
            if status.started is not None or status.state == "reused":
                self._link(status, name)
        if status.name == self._root.step:
            if state == "Running":
                records.set_status(self._database, name, state, unless=(*records.ENDED, "CancelRequested"))
            return
        job = self._child(status.name)
        if status.state == "waiting":  # of a step that starts again
            state = "Queued"
        records.set_status(self._database, job.name, state)
        if status.state == "reused":
            self._mark_reused(job)
        self._update_outer(job)
        if state in _VERBS:
            self._log(f"{status.name}: {_VERBS[state]}, run id {job.name}")

    def tick(self, statuses: Mapping[str, Status]) -> None:
        """Link the logs of processes that have begun since."""
        for step, name in self._running.items():
            processes = statuses[step].processes if step in statuses else 1
            job_files.link_logs(self._home, name, self._folder.step(step), processes)

    def __enter__(self) -> Self:
        if self._root.step is None:
            busy = (*records.ENDED, "CancelRequested")
            records.set_status(self._database, self._root.name, "Running", unless=busy)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _link(self, status: Status, name: str) -> None:
        step = status.name
        job = self._root if step == self._root.step else self._child(step)
        names = [*mapping_of(job.properties, "outputs")]
        job_files.link_step(self._home, name, self._folder.step(step), names, status.processes)

    def _child(self, step: str) -> JobRecord:
        """The job of a step; that of a trial is made when the trial starts."""
        if step not in self._jobs:
            owner = step.rpartition(".")[0]
            sweep = self._root if owner == self._root.step else self._jobs.get(owner, self._root)
            properties = {key: sweep.properties.get(key) or {} for key in ("inputs", "outputs", "tags")}
            record = child_record(
                self._root,
                step,
                parent=sweep.name,
                type_="Command",
                title=step.rpartition(".")[2],
                properties={**properties, "properties": {}},
            )
            records.insert(self._database, record)
            self._jobs[step] = record
        return self._jobs[step]

    def _mark_reused(self, job: JobRecord) -> None:
        more = {**(job.properties.get("properties") or {}), "azureml.isreused": "true"}
        records.update_job(self._database, job.name, properties={**job.properties, "properties": more})

    def _update_outer(self, job: JobRecord) -> None:
        """Give a pipeline inside the pipeline the state that follows from its steps."""
        outer = next((candidate for candidate in self._jobs.values() if candidate.name == job.parent), None)
        if outer is None or outer.type != "Pipeline":
            return
        states = {child.status for child in records.children(self._database, outer.name)}
        records.set_status(self._database, outer.name, summarise(states))
        self._update_outer(outer)

    def _log(self, text: str, other: str | None = None) -> None:
        """Write a line to the log of a pipeline or sweep; of a command to ``other``, if that is given."""
        log = _LOGS.get(self._root.type, other)
        if log is not None:
            time = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%SZ}"
            job_files.append_log(self._home, self._root.name, log, f"[{time}] {text}\n")


def summarise(states: set[str]) -> str:
    """The state of a pipeline by those of its steps."""
    if states <= {"Completed"}:
        return "Completed"
    if states <= set(records.ENDED):
        return "Failed" if "Failed" in states else "Canceled"
    return "NotStarted" if states <= {"NotStarted"} else "Running"


def main() -> int:
    """Run the job that the arguments name."""
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("name")
    parser.add_argument("--environment", choices=("current", "isolated", "docker"))
    arguments = parser.parse_args()
    home = Home(arguments.home)
    database = Database(home.database)
    try:
        with hold_job(home.jobs / arguments.name):
            if records.enter_process(database, arguments.name):
                execute_job(home, database, arguments.name, arguments.environment)
    except AlreadyRunsError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
