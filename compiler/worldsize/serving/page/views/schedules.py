"""Schedules: when each fires next, what it fired, and whether it is enabled."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone, tzinfo
from functools import partial

from nicegui import ui

from worldsize.serving.control.assets import put_resource
from worldsize.serving.database import mapping_of, text_of
from worldsize.serving.jobs.records import get_job
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import code
from worldsize.serving.schedules.fire import wake
from worldsize.serving.schedules.records import (
    KIND,
    Firing,
    ScheduleRecord,
    get_schedule,
    list_firings,
    list_schedules,
)
from worldsize.serving.workspace import Workspace

_COLUMNS = (
    frame.Column("name", "Schedule"),
    frame.Column("state", "State", "ws-keep"),
    frame.Column("trigger", "Trigger"),
    frame.Column("next", "Next firing", "ws-keep"),
)
_FIRINGS = (
    frame.Column("due", "Due", "ws-keep"),
    frame.Column("result", "Job"),
    frame.Column("state", "State", "ws-keep"),
    frame.Column("fired", "Fired", "ws-keep"),
)
NEXT = 5  # firings that are foretold


async def draw_schedules(workspace: Workspace) -> None:
    """The list of schedules."""
    with frame.frame(workspace, "Schedules", "Schedules"):
        nothing = "No schedules yet. Create one with `az ml schedule create`."
        read = partial(list_schedules, workspace.database, brief=True)
        await frame.Listing("Schedules", _COLUMNS, read, _schedule_row, nothing).refresh()


def _schedule_row(schedule: ScheduleRecord) -> frame.Row:
    trigger = mapping_of(schedule.properties, "trigger")
    due = schedule.next_times(1)
    return {
        "id": schedule.name,
        "name": frame.link_cell(_title(schedule), frame.address("schedules", schedule.name), schedule.note),
        "state": frame.state_cell("Enabled" if schedule.enabled else "Disabled"),
        "trigger": frame.text_cell(frame.trigger_words(trigger), text_of(trigger, "timeZone")),
        "next": frame.text_cell(_moment(due[0]) if due else frame.NONE),
    }


async def draw_schedule(workspace: Workspace, name: str) -> None:
    """One schedule."""
    schedule = await asyncio.to_thread(get_schedule, workspace.database, name)
    if schedule is None:
        frame.not_found(workspace, f"Schedule {name}", "Schedules")
        return
    crumbs = [("Schedules", "/schedules")]
    with frame.frame(workspace, _title(schedule), "Schedules", crumbs, is_heading=False):
        await ScheduleView(workspace, schedule).show()


class ScheduleView:
    """The state of a schedule, its next firings and its last ones, as they change."""

    def __init__(self, workspace: Workspace, schedule: ScheduleRecord) -> None:
        self._workspace, self._name = workspace, schedule.name
        trigger = mapping_of(schedule.properties, "trigger")
        with ui.element("div").classes("ws-row"):
            with ui.element("div").classes("ws-grow"):
                frame.heading(_title(schedule), 1)
            self._switch = frame.button("", self._toggle)
        if schedule.note:
            ui.label(schedule.note).classes("ws-soft")
        with ui.element("div").classes("ws-panel"):
            frame.facts(
                [
                    ("State", self._draw_state),
                    ("Trigger", frame.trigger_words(trigger)),
                    ("Time zone", text_of(trigger, "timeZone") or "UTC"),
                    ("Start", text_of(trigger, "startTime") or frame.NONE),
                    ("End", text_of(trigger, "endTime") or frame.NONE),
                    ("Name", schedule.name),
                ],
                "ws-flow",
            )
        with frame.panel("Next firings"):
            self._next = ui.label().classes("ws-text")
        frame.heading("History")
        self._firings = frame.Listing(
            "Firings",
            _FIRINGS,
            partial(list_firings, workspace.database, schedule.name, 50),
            partial(_firing_row, workspace),
            "This schedule has not fired yet.",
        )
        self._definition = mapping_of(schedule.properties, "action")
        ui.timer(frame.LIVE_SECONDS, self.refresh, immediate=False)

    async def show(self) -> None:
        """Show everything for the first time."""
        await self.refresh()
        await self._firings.refresh()
        words = await asyncio.to_thread(frame.document_words, self._definition)
        with ui.expansion("Definition of its jobs").classes("ws-more"):
            code(words, "Definition of the jobs")

    async def refresh(self) -> None:
        """Show the schedule as it is now."""
        schedule, due = await asyncio.to_thread(self._look)
        if schedule is None:
            return
        frame.set_state(self._state, "Enabled" if schedule.enabled else "Disabled")
        self._switch.set_text("Disable" if schedule.enabled else "Enable")
        nothing = "This schedule does not fire." if schedule.enabled else "A disabled schedule does not fire."
        zone = schedule.trigger().zone if due else None
        self._next.set_text("\n".join(_local_moment(moment, zone) for moment in due) or nothing)

    def _look(self) -> tuple[ScheduleRecord | None, list[datetime]]:
        schedule = get_schedule(self._workspace.database, self._name)
        return schedule, [] if schedule is None else schedule.next_times(NEXT)

    def _draw_state(self) -> None:
        self._state = ui.label().props("role=status")

    async def _toggle(self) -> None:
        schedule = await asyncio.to_thread(get_schedule, self._workspace.database, self._name)
        if schedule is not None:
            body = {**schedule.properties, "isEnabled": not schedule.enabled}
            await asyncio.to_thread(put_resource, self._workspace.database, KIND, self._name, body)
            wake()
        await self.refresh()


def _firing_row(workspace: Workspace, firing: Firing) -> frame.Row:
    job = None if firing.job is None else get_job(workspace.database, firing.job)
    if firing.job is not None:
        result = frame.link_cell(firing.job, frame.address("jobs", firing.job))
    else:
        result = frame.text_cell(firing.error or "Starting")
    return {
        "id": firing.due,
        "due": frame.text_cell(frame.time_words(firing.due)),
        "result": result,
        "state": frame.text_cell("") if job is None else frame.state_cell(job.status),
        "fired": frame.text_cell(frame.time_words(firing.fired)),
    }


def _title(schedule: ScheduleRecord) -> str:
    return text_of(schedule.properties, "displayName") or schedule.name


def _local_moment(moment: datetime, zone: tzinfo | None) -> str:
    """A time in UTC, and on the clock of the schedule where that differs."""
    there = moment.astimezone(zone or timezone.utc)
    same = there.utcoffset() == timedelta()
    return _moment(moment) if same else f"{_moment(moment)}, {there:%a %H:%M} in {there.tzinfo}"


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%a %Y-%m-%d %H:%M:%S} UTC"
