"""Jobs in the management API: create, show, list, update, archive, cancel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from worldsize.serving.control.call import Call
from worldsize.serving.errors import ServiceError, bad_request, conflict, not_found
from worldsize.serving.jobs import records
from worldsize.serving.jobs.cancel import cancel
from worldsize.serving.jobs.records import JobRecord, View
from worldsize.serving.jobs.resource import show_job
from worldsize.serving.jobs.submit import submit
from worldsize.serving.jobs.translate.body import as_object

PAGE = 100  # jobs of one answer
VIEWS: Mapping[str, View] = {"activeonly": "ActiveOnly", "archivedonly": "ArchivedOnly", "all": "All"}
MUTABLE = ("tags", "properties", "displayName", "description", "isArchived")


async def handle(call: Call) -> Response:
    """Answer a request for the jobs of the workspace.

    Raises:
        ServiceError: What the service answers instead.
    """
    if call.name is None:
        if call.method != "GET":
            raise ServiceError(405, "MethodNotAllowed", "Jobs are created by their names.")
        return _list(call)
    if call.action == "cancel" and call.method == "POST":
        return _answer(call, await cancel(call.workspace, call.name))
    if call.action is not None:
        raise not_found(f"Operation `{call.action}` of a job")
    if call.method == "GET":
        return _answer(call, _find(call))
    if call.method == "PUT":
        return await _put(call)
    if call.method == "PATCH":
        return _answer(call, update(call, _find(call), as_object(call.body.get("properties"), "properties")))
    if call.method == "DELETE":
        _find(call)
        message = "Jobs are kept: archive the job instead (`az ml job archive`)."
        raise ServiceError(400, "UserError", message)
    raise ServiceError(405, "MethodNotAllowed", f"{call.method} is not a method of jobs.")


def _find(call: Call) -> JobRecord:
    job = records.get_job(call.workspace.database, call.name or "")
    if job is None:
        raise not_found(f"Job `{call.name}`")
    return job


def _answer(call: Call, job: JobRecord, status: int = 200) -> Response:
    return JSONResponse(show_job(call.workspace, call.scope, job), status)


async def _put(call: Call) -> Response:
    assert call.name is not None
    properties = as_object(call.body.get("properties"), "properties")
    known = records.get_job(call.workspace.database, call.name)
    if known is not None:
        if not _is_update(properties):
            raise conflict(f"A job named `{call.name}` exists already.")
        return _answer(call, update(call, known, properties))
    return _answer(call, await submit(call.workspace, call.name, properties), 201)


def _is_update(properties: Mapping[str, Any]) -> bool:
    """Whether a body is the job itself with other tags, as clients send it: it has the job's state."""
    return bool(properties.get("status")) or properties.get("isArchived") is True


def update(call: Call, job: JobRecord, properties: Mapping[str, Any]) -> JobRecord:
    """Change what can be changed of a job: tags, properties, names, and whether it is archived."""
    changed = {name: properties[name] for name in MUTABLE if properties.get(name) is not None}
    for name in ("tags", "properties"):
        if name in changed:
            as_object(changed[name], f"properties.{name}")
    archived = changed.pop("isArchived", None)
    records.update_job(
        call.workspace.database,
        job.name,
        properties={**job.properties, **changed},
        archived=None if archived is None else bool(archived),
        display_name=str(changed["displayName"]) if changed.get("displayName") else None,
    )
    return _find(call)


def _list(call: Call) -> Response:
    query = call.query
    limit = _number(query.get("$top"), "$top") or PAGE
    jobs = records.list_jobs(
        call.workspace.database,
        types=_types(query.get("jobtype")),
        tag=query.get("tag"),
        view=VIEWS.get((query.get("listviewtype") or "activeonly").lower(), "ActiveOnly"),
        schedule=_schedule(query),
        limit=min(limit, PAGE) + 1,
        after=_number(query.get("$skip"), "$skip"),
    )
    shown = jobs[: min(limit, PAGE)]
    answer: dict[str, Any] = {"value": [show_job(call.workspace, call.scope, job) for job in shown]}
    if len(jobs) > len(shown):
        others = "&".join(f"{key}={value}" for key, value in query.items() if key != "$skip")
        answer["nextLink"] = f"{call.base}{call.scope.id}/jobs?{others}&$skip={shown[-1].id}"
    return JSONResponse(answer)


def _types(text: str | None) -> list[str]:
    known = {"command": "Command", "pipeline": "Pipeline", "sweep": "Sweep"}
    return [known.get(word.strip().lower(), word) for word in text.split(",")] if text else []


def _schedule(query: Mapping[str, str]) -> str | None:
    if query.get("scheduleid"):
        return query["scheduleid"].rpartition("/")[2]
    return "" if (query.get("scheduled") or "").lower() == "true" else None


def _number(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        raise bad_request(f"`{name}` is `{text[:40]}`, which is not a number.")
    return int(text)
