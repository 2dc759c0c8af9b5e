"""Schedules: when each fires next, what it fired, and whether it is enabled."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone, tzinfo

from nicegui import ui

from worldsize.serving.control.resources import put_resource
from worldsize.serving.jobs.records import get_job
from worldsize.serving.page.queries.triggers import trigger_words
from worldsize.serving.page.queries.wording import NONE, mapping_of, text_of, time_words
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.files import code
from worldsize.serving.page.views.tables import (
    Column,
    Row,
    link_cell,
    set_rows,
    show_table,
    state_cell,
    text_cell,
)
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
    Column("name", "Schedule"),
    Column("state", "State", "ws-keep"),
    Column("trigger", "Trigger"),
    Column("next", "Next firing", "ws-keep"),
)
_FIRINGS = (
    Column("due", "Due", "ws-keep"),
    Column("result", "Job"),
    Column("state", "State", "ws-keep"),
    Column("fired", "Fired", "ws-keep"),
)
NEXT = 5  # firings that are foretold


def draw_schedules(workspace: Workspace) -> None:
    """The list of schedules."""
    with frame.frame(workspace, "Schedules", "Schedules"):
        frame.heading("Schedules", 1)
        nothing = "No schedules yet. Create one with `az ml schedule create`."
        table = show_table("Schedules", _COLUMNS, [], empty=nothing)

        def refresh() -> None:
            set_rows(table, [_schedule_row(each) for each in list_schedules(workspace.database)])

        refresh()
        ui.timer(frame.LIVE_SECONDS, refresh, immediate=False)


def _schedule_row(schedule: ScheduleRecord) -> Row:
    trigger = mapping_of(schedule.properties, "trigger")
    due = schedule.next_times(1)
    return {
        "id": schedule.name,
        "name": link_cell(_title(schedule), frame.address("schedules", schedule.name), schedule.note),
        "state": state_cell("Enabled" if schedule.enabled else "Disabled"),
        "trigger": text_cell(trigger_words(trigger), text_of(trigger, "timeZone")),
        "next": text_cell(_moment(due[0]) if due else NONE),
    }


def draw_schedule(workspace: Workspace, name: str) -> None:
    """One schedule."""
    schedule = get_schedule(workspace.database, name)
    if schedule is None:
        frame.not_found(workspace, f"Schedule {name}", "Schedules")
        return
    with frame.frame(workspace, _title(schedule), "Schedules", [("Schedules", "/schedules")]):
        ScheduleView(workspace, schedule)


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
                    ("Trigger", trigger_words(trigger)),
                    ("Time zone", text_of(trigger, "timeZone") or "UTC"),
                    ("Start", text_of(trigger, "startTime") or NONE),
                    ("End", text_of(trigger, "endTime") or NONE),
                    ("Name", schedule.name),
                ],
                "ws-flow",
            )
        with frame.panel("Next firings"):
            self._next = ui.label().classes("ws-text")
        frame.heading("History")
        self._table = show_table("Firings", _FIRINGS, [], empty="This schedule has not fired yet.")
        with ui.expansion("Definition of its jobs").classes("ws-more"):
            definition = mapping_of(schedule.properties, "action")
            code(json.dumps(definition, indent=2, ensure_ascii=False), "Definition of the jobs")
        self.refresh()
        ui.timer(frame.LIVE_SECONDS, self.refresh, immediate=False)

    def refresh(self) -> None:
        """Show the schedule as it is now."""
        schedule = get_schedule(self._workspace.database, self._name)
        if schedule is None:
            return
        frame.set_state(self._state, "Enabled" if schedule.enabled else "Disabled")
        self._switch.set_text("Disable" if schedule.enabled else "Enable")
        due = schedule.next_times(NEXT)
        nothing = "This schedule does not fire." if schedule.enabled else "A disabled schedule does not fire."
        zone = schedule.trigger().zone if due else None
        self._next.set_text("\n".join(_local_moment(each, zone) for each in due) or nothing)
        firings = list_firings(self._workspace.database, self._name, 50)
        set_rows(self._table, [_firing_row(self._workspace, each) for each in firings])

    def _draw_state(self) -> None:
        self._state = ui.label().props("role=status")

    def _toggle(self) -> None:
        schedule = get_schedule(self._workspace.database, self._name)
        if schedule is not None:
            body = {**schedule.properties, "isEnabled": not schedule.enabled}
            put_resource(self._workspace.database, KIND, self._name, body)
            wake()
        self.refresh()


def _firing_row(workspace: Workspace, firing: Firing) -> Row:
    job = None if firing.job is None else get_job(workspace.database, firing.job)
    if firing.job is not None:
        result = link_cell(firing.job, frame.address("jobs", firing.job))
    else:
        result = text_cell(firing.error or "Starting")
    return {
        "id": firing.due,
        "due": text_cell(time_words(firing.due)),
        "result": result,
        "state": text_cell("") if job is None else state_cell(job.status),
        "fired": text_cell(time_words(firing.fired)),
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
