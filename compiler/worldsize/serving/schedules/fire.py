"""The timer: starts the jobs of schedules when they are due.

A firing is in the database before anything is done for it, and its job's name follows from it. So a due
time never starts two jobs, and what a killed server had begun goes on with the next start. Due times that
pass while no server runs are left out, as Azure's recurrences leave out those that they missed (Microsoft
Learn, "Schedules for recurring triggers in Azure Logic Apps workflows").
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone

from worldsize.serving.errors import ServiceError, explain_refused, log_error
from worldsize.serving.jobs.records import get_job
from worldsize.serving.jobs.submit import submit
from worldsize.serving.schedules import records
from worldsize.serving.schedules.definition import fill_definition
from worldsize.serving.schedules.records import Firing, ScheduleRecord
from worldsize.serving.schedules.times import next_due
from worldsize.serving.workspace import Workspace

LATE = timedelta(minutes=1)  # a due time that is older was missed: the machine slept
_LONGEST_SLEEP = 5.0  # seconds; the clock may be set, or the machine sleep, meanwhile
_changed: set[asyncio.Event] = set()


def wake() -> None:
    """Let the timer look at the schedules again, because one changed."""
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
        # The next due time of each schedule, for the state that it had when that was computed.
        self._next: dict[str, tuple[ScheduleRecord, datetime | None]] = {}

    async def run(self) -> None:
        """Fire what is due, sleep, and again."""
        looked = datetime.now(timezone.utc)
        try:
            while True:
                self._changed.clear()
                now = datetime.now(timezone.utc)
                try:
                    self._look(looked, now)
                except Exception as error:  # the timer outlives whatever one look meets
                    log_error("schedules could not be read", error)
                looked = now
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._pause())
        finally:
            for task in self._firings.values():
                task.cancel()
            await asyncio.gather(*self._firings.values(), return_exceptions=True)

    def _look(self, looked: datetime, now: datetime) -> None:
        schedules = {each.name: each for each in records.list_schedules(self._workspace.database)}
        for name in self._next.keys() - schedules.keys():
            del self._next[name]
        for schedule in schedules.values():
            self._look_at(schedule, looked, now)
        for firing in records.unfinished_firings(self._workspace.database):
            self._start(schedules.get(firing.schedule), firing)

    def _look_at(self, schedule: ScheduleRecord, looked: datetime, now: datetime) -> None:
        if not schedule.enabled or schedule.note:
            self._next.pop(schedule.name, None)
            return
        known = self._next.get(schedule.name)
        if known is None or known[0] != schedule:
            due = next_due(schedule.trigger(), max(looked, schedule.modified))
        else:
            due = known[1]
        while due is not None and due <= now:
            if now - due < LATE:
                records.claim(self._workspace.database, schedule.name, due)
            due = next_due(schedule.trigger(), max(due, now - LATE))
        self._next[schedule.name] = (schedule, due)

    def _pause(self) -> float:
        """Seconds until the next due time, or until the clock is looked at again."""
        now = datetime.now(timezone.utc)
        waits = [(due - now).total_seconds() for _, due in self._next.values() if due is not None]
        return min([_LONGEST_SLEEP, *(max(wait, 0.0) + 0.001 for wait in waits)])

    def _start(self, schedule: ScheduleRecord | None, firing: Firing) -> None:
        key = (firing.schedule, firing.due)
        if key in self._firings:
            return
        if schedule is None:
            records.finish(
                self._workspace.database, firing, error="The schedule was deleted before it fired."
            )
            return
        task = asyncio.create_task(_fire_quietly(self._workspace, schedule, firing))
        self._firings[key] = task
        task.add_done_callback(lambda _: self._firings.pop(key, None))


async def _fire_quietly(workspace: Workspace, schedule: ScheduleRecord, firing: Firing) -> None:
    try:
        await fire(workspace, schedule, firing)
    except ServiceError:  # the firing's row has it
        pass
    except Exception as error:
        log_error(f"schedule {schedule.name} could not be fired", error)


async def fire(workspace: Workspace, schedule: ScheduleRecord, firing: Firing) -> str:
    """Start the job of a firing, unless that was done before.

    Args:
        workspace: The workspace.
        schedule: The schedule.
        firing: Its claimed due time.

    Returns:
        The name of the job.

    Raises:
        ServiceError: The job was refused, which the firing records.
    """
    name = records.job_name(firing)
    try:
        if get_job(workspace.database, name) is None:
            await submit(workspace, name, fill_definition(schedule, firing), schedule=schedule.name)
    except ServiceError as error:
        if get_job(workspace.database, name) is None:  # else another request for the same firing was first
            records.finish(workspace.database, firing, error=str(error))
            raise
    except Exception as error:
        log_error(f"schedule {schedule.name} could not be fired", error)
        if (reason := explain_refused(error)) is not None:  # the firing waits, and is tried again
            raise ServiceError(507, "InsufficientStorage", f"The job waits: {reason}.") from error
        message = f"The job could not be submitted: {type(error).__name__}: {error}"
        records.finish(workspace.database, firing, error=message)
        raise ServiceError(500, "InternalServerError", message) from error
    records.finish(workspace.database, firing, job=name)
    return name
