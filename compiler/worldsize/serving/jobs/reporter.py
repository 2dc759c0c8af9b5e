"""Writes the states of a run into the database, while it runs: a view like that of a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from worldsize.running.model.folder import RunFolder
from worldsize.running.model.results import Status
from worldsize.serving.database import Database
from worldsize.serving.home import Home
from worldsize.serving.jobs import artifacts, records
from worldsize.serving.jobs.plan import child_record
from worldsize.serving.jobs.records import JobRecord, child_name

if TYPE_CHECKING:
    from typing_extensions import Self

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
    """The view of a job's run.

    Args:
        home: The workspace's home.
        database: Its database.
        root: The job that runs.
    """

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
        self._log(text, artifacts.NOTICES_LOG)

    def warn(self, text: str) -> None:
        """Write a warning to the same log."""
        self._log(f"Warning: {text}", artifacts.NOTICES_LOG)

    def changed(self, status: Status) -> None:
        """Write the state of a step."""
        state, name = STATES[status.state], self.name(status.name)
        if state == "Running":
            self._begin(status, name)
        elif state in records.ENDED:
            self._end(status, name)
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
            artifacts.link_logs(self._home, name, self._folder.step(step), processes)

    def __enter__(self) -> Self:
        if self._root.step is None:
            busy = (*records.ENDED, "CancelRequested")
            records.set_status(self._database, self._root.name, "Running", unless=busy)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _begin(self, status: Status, name: str) -> None:
        self._running[status.name] = name
        self._link(status, name)

    def _end(self, status: Status, name: str) -> None:
        self._running.pop(status.name, None)
        if status.started is not None or status.state == "reused":
            self._link(status, name)

    def _link(self, status: Status, name: str) -> None:
        step = status.name
        job = self._root if step == self._root.step else self._child(step)
        outputs = job.properties.get("outputs")
        names = [*outputs] if isinstance(outputs, Mapping) else []
        artifacts.link_step(self._home, name, self._folder.step(step), names, status.processes)

    def _child(self, step: str) -> JobRecord:
        """The job of a step; that of a trial is made when the trial starts."""
        if step not in self._jobs:
            owner = step.rpartition(".")[0]
            sweep = self._root if owner == self._root.step else self._jobs.get(owner, self._root)
            properties: dict[str, Any] = {
                key: sweep.properties.get(key) or {} for key in ("inputs", "outputs", "tags")
            }
            record = child_record(
                self._root,
                step,
                parent=sweep.name,
                type_="Command",
                title=step.rpartition(".")[2],
                properties={**properties, "properties": {}},
            )
            records.insert_missing(self._database, [record])
            self._jobs[step] = record
        return self._jobs[step]

    def _mark_reused(self, job: JobRecord) -> None:
        more = {**(job.properties.get("properties") or {}), "azureml.isreused": "true"}
        records.update_job(self._database, job.name, properties={**job.properties, "properties": more})

    def _update_outer(self, job: JobRecord) -> None:
        """Give a pipeline inside the pipeline the state that follows from its steps."""
        outer = next((each for each in self._jobs.values() if each.name == job.parent), None)
        if outer is None or outer.type != "Pipeline":
            return
        states = {each.status for each in records.children(self._database, outer.name)}
        records.set_status(self._database, outer.name, summarise(states))
        self._update_outer(outer)

    def _log(self, text: str, other: str | None = None) -> None:
        """Write a line to the log of a pipeline or sweep; of a command to ``other``, if that is given."""
        kinds = {"Pipeline": artifacts.PIPELINE_LOG, "Sweep": artifacts.SWEEP_LOG}
        log = kinds.get(self._root.type, other)
        if log is not None:
            time = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%SZ}"
            artifacts.append_log(self._home, self._root.name, log, f"[{time}] {text}\n")


def summarise(states: set[str]) -> str:
    """The state of a pipeline by those of its steps."""
    if states <= {"Completed"}:
        return "Completed"
    if states <= set(records.ENDED):
        return "Failed" if "Failed" in states else "Canceled"
    return "NotStarted" if states <= {"NotStarted"} else "Running"
