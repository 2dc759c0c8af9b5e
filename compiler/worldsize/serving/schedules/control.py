"""Schedules in the management API: create, show, list, change, delete and trigger once."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from starlette.responses import Response

from worldsize.serving.control.call import Call
from worldsize.serving.control.document import (
    JsonObject,
    answer,
    take_flag,
    take_object,
    take_text,
    take_texts,
)
from worldsize.serving.control.paging import answer_page, read_window
from worldsize.serving.control.resources import delete_resource, put_resource
from worldsize.serving.control.system_data import describe_times
from worldsize.serving.database import now
from worldsize.serving.errors import ServiceError, bad_request, not_found
from worldsize.serving.schedules import records
from worldsize.serving.schedules.definition import complete_definition
from worldsize.serving.schedules.fire import fire, wake
from worldsize.serving.schedules.records import KIND, ScheduleRecord
from worldsize.serving.schedules.triggers import has_start, read_trigger

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_ACTIONS = {  # what each action must have
    "createjob": "jobDefinition",
    "createmonitor": "monitorDefinition",
    "importdata": "dataImportDefinition",
    "invokebatchendpoint": "endpointInvocationDefinition",
}
_VIEWS = {"enabledonly": (True,), "disabledonly": (False,), "all": (True, False)}


async def handle(call: Call) -> Response:
    """Answer a request for ``schedules``, ``schedules/{name}`` or its ``trigger``.

    Raises:
        ServiceError: What the service answers instead.
    """
    if call.name is None:
        if call.method != "GET":
            raise ServiceError(405, "MethodNotAllowed", "Schedules are created by their names.")
        return _list(call)
    if call.action == "trigger" and call.method == "POST":
        return await _trigger(call, _find(call))
    if call.action is not None or call.versions:
        raise not_found(f"The action `{call.action}` of schedules")
    if call.method == "GET":
        return answer(_describe(call, _find(call)))
    if call.method == "PUT":
        return _put(call, call.name)
    if call.method == "DELETE":
        return _delete(call)
    raise ServiceError(405, "MethodNotAllowed", f"{call.method} is not a method of schedules.")


def _find(call: Call) -> ScheduleRecord:
    schedule = records.get_schedule(call.workspace.database, call.name or "")
    if schedule is None:
        raise not_found(f"Schedule `{call.name}`")
    return schedule


def _list(call: Call) -> Response:
    view = call.query.get("listviewtype") or "EnabledOnly"
    if view.lower() not in _VIEWS:
        raise bad_request(f"`listViewType` is EnabledOnly, DisabledOnly or All, not `{view[:40]}`.")
    shown = [
        schedule
        for schedule in records.list_schedules(call.workspace.database)
        if schedule.enabled in _VIEWS[view.lower()]
    ]
    limit, skip = read_window(call)
    page = [_describe(call, schedule) for schedule in shown[skip : skip + limit]]
    return answer_page(call, page, more=len(shown) > skip + limit)


def _put(call: Call, name: str) -> Response:
    if _NAME.fullmatch(name) is None:
        raise bad_request(f"`{name[:80]}` is not a name of a schedule: use letters, digits, `-` and `_`.")
    database = call.workspace.database
    properties = _read_properties(call)
    with database.transaction():
        known = records.get_schedule(database, name)
        created = records.read_time(now()) if known is None else known.created
        read_trigger(properties["trigger"], created)
        schedule = records.read_schedule(put_resource(database, KIND, name, properties))
        if known is None and schedule.enabled and not schedule.note and not has_start(properties["trigger"]):
            # Documented: without a start time the first job starts at once.
            records.claim(database, schedule.name, schedule.created.replace(microsecond=0))
    wake()
    return answer(_describe(call, schedule), 201 if known is None else 200)


def _read_properties(call: Call) -> JsonObject:
    where = "properties."
    properties = take_object(call.body, "properties")
    for key in ("displayName", "description"):
        take_text(properties, key, where)
    for key in ("tags", "properties"):
        take_texts(properties, key, where)
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
    schedule = records.get_schedule(call.workspace.database, call.name or "")
    if schedule is None:
        return Response(status_code=204)
    if schedule.enabled:
        raise bad_request(f"Schedule `{schedule.name}` is enabled: only a disabled schedule can be deleted.")
    delete_resource(call.workspace.database, KIND, schedule.name)
    wake()
    return Response(status_code=200)


async def _trigger(call: Call, schedule: ScheduleRecord) -> Response:
    if schedule.note:
        raise bad_request(schedule.note)
    if not schedule.enabled:
        raise bad_request(f"Schedule `{schedule.name}` is disabled: enable it to trigger it.")
    due = _read_schedule_time(call)
    database = call.workspace.database
    # The same time again is the same request again, which a client repeats when it got no answer.
    firing = records.claim(database, schedule.name, due) or records.find_firing(database, schedule.name, due)
    assert firing is not None
    job = firing.job or await fire(call.workspace, schedule, firing)
    return answer({"scheduleActionType": "CreateJob", "submissionId": job})


def _read_schedule_time(call: Call) -> datetime:
    text = take_text(call.body, "scheduleTime")
    if not text:
        return datetime.now(timezone.utc)
    try:
        moment = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1] in "zZ" else text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise bad_request(f"`scheduleTime` is `{text[:60]}`, which is not a time.") from None


def _describe(call: Call, schedule: ScheduleRecord) -> JsonObject:
    return {
        "id": f"{call.scope.id}/schedules/{schedule.name}",
        "name": schedule.name,
        "type": "Microsoft.MachineLearningServices/workspaces/schedules",
        "properties": {
            "description": None,
            "displayName": schedule.name,
            **{key: value for key, value in schedule.properties.items() if value is not None},
            "tags": schedule.properties.get("tags") or {},
            "properties": schedule.properties.get("properties") or {},
            "isEnabled": schedule.enabled,
            "provisioningState": "Succeeded",
        },
        "systemData": describe_times(_service_time(schedule.created), _service_time(schedule.modified)),
    }


def _service_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
