"""Schedules in the management API: create, show, list, change, delete and trigger once."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from functools import partial

from starlette.responses import Response

from worldsize.serving.control.assets import delete_resource, put_resource
from worldsize.serving.control.call import (
    Call,
    Handlers,
    JsonObject,
    answer_beside,
    answer_deletion,
    answer_page,
    describe_resource,
    take_about,
    take_flag,
    take_object,
    take_text,
    take_time,
)
from worldsize.serving.database import contained, format_time, now, read_time
from worldsize.serving.errors import answer, bad_request, not_found
from worldsize.serving.schedules import records
from worldsize.serving.schedules.fire import complete_definition, fire, wake
from worldsize.serving.schedules.records import KIND, ScheduleRecord, read_trigger

_ACTIONS = {  # what each action must have
    "createjob": "jobDefinition",
    "createmonitor": "monitorDefinition",
    "importdata": "dataImportDefinition",
    "invokebatchendpoint": "endpointInvocationDefinition",
}
_VIEWS = {"enabledonly": True, "disabledonly": False, "all": None}


async def _change(call: Call) -> Response:
    handle = _put if call.method == "PUT" else _delete
    answered = await answer_beside(call.workspace, call.method, partial(handle, call))
    wake()
    return answered


def _find(call: Call) -> ScheduleRecord:
    schedule = records.get_schedule(call.database, call.name)
    if schedule is None:
        raise not_found(f"Schedule `{call.name}`")
    return schedule


def _list(call: Call) -> Response:
    view = call.query.get("listviewtype") or "EnabledOnly"
    if view.lower() not in _VIEWS:
        raise bad_request(f"`listViewType` is EnabledOnly, DisabledOnly or All, not `{view[:40]}`.")
    schedules = records.list_schedules(call.database, enabled=_VIEWS[view.lower()])
    return answer_page(call, schedules, _describe)


def _put(call: Call) -> Response:
    database, name = call.database, call.name
    properties = _read_properties(call)
    read_trigger(properties["trigger"], read_time(now()))
    exists = name.lower() in map(str.lower, records.list_states(database))
    schedule = records.read_schedule(put_resource(database, KIND, name, properties))
    if not (exists or schedule.note or properties["trigger"].get("startTime")) and schedule.enabled:
        # Documented: without a start time the first job starts at once.
        records.claim(database, schedule.name, schedule.created.replace(microsecond=0))
    return answer(_describe(call, schedule), 200 if exists else 201)


def _read_properties(call: Call) -> JsonObject:
    where = "properties."
    properties = take_object(call.body, "properties")
    take_about(properties, where)
    enabled = True if properties.get("isEnabled") is None else take_flag(properties, "isEnabled", where)
    action = dict(take_object(properties, "action", where))
    kind = take_text(action, "actionType", f"{where}action.", required=True)
    if kind.lower() not in _ACTIONS:
        raise bad_request(f"`properties.action.actionType` `{kind[:60]}` is not an action of a schedule.")
    member = _ACTIONS[kind.lower()]
    definition = take_object(action, member, f"{where}action.")
    if not definition:
        raise bad_request(f"`properties.action.{member}` is required.")
    if kind.lower() == "createjob":
        action[member] = complete_definition(call.workspace, definition)
    take_object(properties, "trigger", where)
    return {**properties, "trigger": properties.get("trigger"), "action": action, "isEnabled": enabled}


def _delete(call: Call) -> Response:
    database, name = call.database, call.name
    schedule = None
    with contained("schedule", name):  # one that cannot be read can be deleted
        schedule = records.get_schedule(database, name)
    if schedule is not None and schedule.enabled:
        raise bad_request(f"Schedule `{schedule.name}` is enabled: only a disabled schedule can be deleted.")
    return answer_deletion(delete_resource(database, KIND, name))


async def _trigger(call: Call) -> object:
    schedule = await asyncio.to_thread(_find, call)
    if schedule.note:
        raise bad_request(schedule.note)
    if not schedule.enabled:
        raise bad_request(f"Schedule `{schedule.name}` is disabled: enable it to trigger it.")
    due = _read_schedule_time(call)
    database = call.database
    # The same time again is the same request again, which a client repeats when it got no answer.
    firing = await database.change(
        lambda: (
            records.claim(database, schedule.name, due) or records.find_firing(database, schedule.name, due)
        )
    )
    assert firing is not None
    job = firing.job or await fire(call.workspace, schedule, firing)
    return {"scheduleActionType": "CreateJob", "submissionId": job}


def _read_schedule_time(call: Call) -> datetime:
    text = take_text(call.body, "scheduleTime")
    if not text:
        return datetime.now(timezone.utc)
    return take_time(text, "scheduleTime").astimezone(timezone.utc)


def _describe(call: Call, schedule: ScheduleRecord) -> JsonObject:
    properties = {
        "description": None,
        "displayName": schedule.name,
        **{key: value for key, value in schedule.properties.items() if value is not None},
        "tags": schedule.properties.get("tags") or {},
        "properties": schedule.properties.get("properties") or {},
        "isEnabled": schedule.enabled,
        "provisioningState": "Succeeded",
    }
    times = format_time(schedule.created), format_time(schedule.modified)
    return describe_resource(call, ("schedules", schedule.name), properties, times)


HANDLERS: Handlers = {
    "GET all": _list,
    "GET one": lambda call: _describe(call, _find(call)),
    "PUT one": _change,
    "DELETE one": _change,
    "POST one/trigger": _trigger,
}
