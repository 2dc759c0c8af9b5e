"""The timer: starts the jobs of schedules when they are due, from their stored definitions.

A firing is in the database before anything is done for it, and its job's name follows from it. So a due
time never starts two jobs, and what a killed server had begun goes on with the next start. Due times that
pass while no server runs are left out, as Azure's recurrences leave out those that they missed (Microsoft
Learn, "Schedules for recurring triggers in Azure Logic Apps workflows").
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

from worldsize.azureml.cron import next_due
from worldsize.serving.control.call import JsonObject, take_object, take_text
from worldsize.serving.database import contained
from worldsize.serving.errors import ServiceError, bad_request, explain_refused, log_error
from worldsize.serving.jobs.records import get_job
from worldsize.serving.jobs.submit import submit
from worldsize.serving.schedules import records
from worldsize.serving.schedules.records import Firing, ScheduleRecord, job_name
from worldsize.serving.workspace import Workspace

LATE = timedelta(minutes=1)  # a due time that is older was missed: the machine slept
_LONGEST_SLEEP = 5.0  # seconds; the clock may be set, or the machine sleep, meanwhile
_MOST_AT_ONCE = 16  # firings whose jobs are submitted
_changed: set[asyncio.Event] = set()


def wake() -> None:
    """Let the timer look at the schedules again, because one changed; called in the event loop."""
    for event in _changed:
        event.set()


@contextlib.asynccontextmanager
async def run_schedules(workspace: Workspace) -> AsyncIterator[None]:
    """Fire schedules for as long as the context lasts."""
    event = asyncio.Event()
    _changed.add(event)
    timer = asyncio.create_task(_Timer(workspace, event).run())
    try:
        yield
    finally:
        _changed.discard(event)
        timer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await timer


class _Timer:
    def __init__(self, workspace: Workspace, changed: asyncio.Event) -> None:
        self._workspace = workspace
        self._changed = changed
        self._firings: dict[tuple[str, str], asyncio.Task[None]] = {}  # by schedule and due time
        # When each schedule was changed last, and its next due time since.
        self._next: dict[str, tuple[str, datetime | None]] = {}

    async def run(self) -> None:
        """Fire what is due, sleep, and again."""
        looked = datetime.now(timezone.utc)
        try:
            while True:
                self._changed.clear()
                now = datetime.now(timezone.utc)
                try:
                    firings = await asyncio.to_thread(self._look, looked, now)
                    self._start(firings)
                except Exception as error:  # the timer outlives whatever one look meets
                    log_error("schedules could not be read", error)
                looked = now
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._pause())
        finally:
            for task in self._firings.values():
                task.cancel()
            await asyncio.gather(*self._firings.values(), return_exceptions=True)

    def _look(self, looked: datetime, now: datetime) -> list[tuple[Firing, ScheduleRecord]]:
        """Claim what is due, and list what is to be fired."""
        database = self._workspace.database
        states = records.list_states(database)
        for name in self._next.keys() - states.keys():
            del self._next[name]
        for name, modified in states.items():
            entry = self._next.get(name)
            due = entry[1] if entry is not None and entry[0] == modified else None
            if entry is not None and entry[0] == modified and (due is None or due > now):
                continue
            self._next.pop(name, None)
            with contained("schedule", name):
                schedule = records.get_schedule(database, name)
                fires = schedule is not None and schedule.enabled and not schedule.note
                claimed = self._claim_due(schedule, due, looked, now) if schedule and fires else None
                self._next[name] = (modified, claimed)
        room = _MOST_AT_ONCE - len(self._firings)
        waiting = records.unfinished_firings(database, _MOST_AT_ONCE)
        new = [firing for firing in waiting if (firing.schedule, firing.due) not in self._firings]
        return [pair for firing in new[: max(room, 0)] if (pair := self._with_schedule(firing)) is not None]

    def _with_schedule(self, firing: Firing) -> tuple[Firing, ScheduleRecord] | None:
        """A firing with its schedule; None for one that ends because that is gone or cannot be read."""
        reason = "The schedule was deleted before it fired."
        try:
            if (schedule := records.get_schedule(self._workspace.database, firing.schedule)) is not None:
                return firing, schedule
        except ServiceError as error:
            reason = str(error)
        records.finish(self._workspace.database, firing, error=reason)
        return None

    def _claim_due(
        self, schedule: ScheduleRecord, due: datetime | None, looked: datetime, now: datetime
    ) -> datetime | None:
        """Claim the due times of a schedule until now, from ``due`` on; the next one."""
        trigger = schedule.trigger()
        if due is None:
            due = next_due(trigger, max(looked, schedule.modified))
        while due is not None and due <= now:
            if now - due < LATE:
                records.claim(self._workspace.database, schedule.name, due)
            due = next_due(trigger, max(due, now - LATE))
        return due

    def _pause(self) -> float:
        """Seconds until the next due time, or until the clock is looked at again."""
        now = datetime.now(timezone.utc)
        waits = [(due - now).total_seconds() for _, due in self._next.values() if due is not None]
        return min([_LONGEST_SLEEP, *(max(wait, 0.0) + 0.001 for wait in waits)])

    def _start(self, firings: list[tuple[Firing, ScheduleRecord]]) -> None:
        for firing, schedule in firings:
            task = asyncio.create_task(_fire_quietly(self._workspace, schedule, firing))
            key = (firing.schedule, firing.due)
            self._firings[key] = task
            task.add_done_callback(partial(self._end, key))

    def _end(self, key: tuple[str, str], _task: asyncio.Task[None]) -> None:
        """Forget a firing that has ended; others may wait for its place."""
        if len(self._firings) == _MOST_AT_ONCE:
            self._changed.set()
        del self._firings[key]


async def _fire_quietly(workspace: Workspace, schedule: ScheduleRecord, firing: Firing) -> None:
    try:
        await fire(workspace, schedule, firing)
    except ServiceError:  # the firing's row has it
        pass
    except Exception as error:
        log_error(f"schedule {schedule.name} could not be fired", error)


async def fire(workspace: Workspace, schedule: ScheduleRecord, firing: Firing) -> str:
    """Start the job of a firing, unless that was done before; the name of the job.

    Raises:
        ServiceError: The job was refused, which the firing records.
    """
    name = records.job_name(firing)
    try:
        if await asyncio.to_thread(get_job, workspace.database, name) is None:
            await submit(workspace, name, _fill_definition(schedule, firing), schedule=schedule.name)
    except ServiceError as error:
        if (
            await asyncio.to_thread(get_job, workspace.database, name) is None
        ):  # else another request for the same firing was first
            await asyncio.to_thread(records.finish, workspace.database, firing, error=str(error))
            raise
    except Exception as error:
        log_error(f"schedule {schedule.name} could not be fired", error)
        if (reason := explain_refused(error)) is not None:  # the firing waits, and is tried again
            raise ServiceError(507, "InsufficientStorage", f"The job waits: {reason}.") from error
        message = f"The job could not be submitted: {type(error).__name__}: {error}"
        await asyncio.to_thread(records.finish, workspace.database, firing, error=message)
        raise ServiceError(500, "InternalServerError", message) from error
    await asyncio.to_thread(records.finish, workspace.database, firing, job=name)
    return name


_MERGED = ("inputs", "outputs", "settings", "tags", "properties")  # key by key over the source job's
_OF_A_RUN = ("status", "services", "isArchived")  # a job's, not of its definition


def complete_definition(workspace: Workspace, definition: JsonObject) -> JsonObject:
    """The definition of a job, with what it takes over from the existing job that it names: it stands alone.

    Raises:
        ServiceError: 400: there is no such job, or no type of job.
    """
    source = take_text(definition, "sourceJobId", "properties.action.jobDefinition.")
    complete = definition
    if source:
        name = source.removeprefix("azureml:").rpartition("/")[2]
        if (job := get_job(workspace.database, name)) is None:
            raise bad_request(f"The job `{name}`, which the schedule starts again, was not found.")
        complete = _merge(job.properties, definition)
    where = "properties.action.jobDefinition."
    if take_text(complete, "jobType", where, required=True).lower() not in ("pipeline", "command"):
        message = f"A schedule starts pipelines, not jobs of type `{complete['jobType']}`."
        raise bad_request(message)
    for key in _MERGED:
        take_object(complete, key, where)
    return complete


def _merge(source: Mapping[str, Any], changes: JsonObject) -> JsonObject:
    changed = {key: value for key, value in changes.items() if value not in (None, "", {}, [])}
    merged = {key: value for key, value in source.items() if key not in _OF_A_RUN} | changed
    for key in _MERGED:
        merged[key] = {**(source.get(key) or {}), **take_object(changes, key)}
    return merged


def _fill_definition(schedule: ScheduleRecord, firing: Firing) -> JsonObject:
    """The body of the job of one firing."""
    definition: JsonObject = dict(schedule.properties["action"]["jobDefinition"])
    name = job_name(firing)
    values = {"${{name}}": name, "${{creation_context.trigger_time}}": firing.due}
    for key in ("inputs", "outputs"):
        definition[key] = {port: _fill(value, values) for port, value in (definition.get(key) or {}).items()}
    definition["displayName"] = name
    definition["experimentName"] = definition.get("experimentName") or schedule.name
    definition["isArchived"] = False
    definition["properties"] = {
        **(definition.get("properties") or {}),
        "azureml.scheduleTrigger.scheduleName": schedule.name,
        "azureml.scheduleTrigger.triggerTime": firing.due,
    }
    return definition


def _fill(port: object, values: Mapping[str, str]) -> object:
    if not isinstance(port, dict):
        return port
    filled = dict(port)
    for key in ("value", "uri"):
        text = port.get(key)
        if not isinstance(text, str):
            continue
        if key == "uri" and text.strip() in values and port.get("jobInputType"):
            # azure-ai-ml takes an expression for a path; it stands for a text.
            return {"jobInputType": "literal", "value": values[text.strip()]}
        for expression, value in values.items():
            text = text.replace(expression, value)
        filled[key] = text
    return filled
