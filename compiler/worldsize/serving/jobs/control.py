"""Jobs in the management API: create, show, list, update, archive, cancel; and the resource that each is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from worldsize.serving.control.call import (
    Call,
    Handlers,
    answer_beside,
    answer_page,
    read_window,
    take_about,
    views,
)
from worldsize.serving.database import mapping_of, texts_of
from worldsize.serving.errors import ServiceError, answer, conflict, not_found
from worldsize.serving.jobs import records
from worldsize.serving.jobs.job_files import list_outputs, output_uri
from worldsize.serving.jobs.queue import cancel
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.submit import submit
from worldsize.serving.jobs.translate.body import as_object
from worldsize.serving.storage.artifacts import run_blob_path
from worldsize.serving.workspace import ARTIFACT_STORE, Scope, Workspace

MUTABLE = ("tags", "properties", "displayName", "description", "isArchived")


async def _cancel(call: Call) -> Response:
    await cancel(call.workspace, call.name)
    return await asyncio.to_thread(_show, call)


async def _put(call: Call) -> Response:
    name, properties = call.name, as_object(call.body.get("properties"), "properties")
    take_about(properties)
    if await asyncio.to_thread(records.get_job, call.database, name) is None:
        await submit(call.workspace, name, properties)
        return await asyncio.to_thread(_show, call, 201)
    if not _is_update(properties):
        raise conflict(f"A job named `{name}` exists already.")
    return await answer_beside(call.workspace, call.method, partial(_update, call))


def _update(call: Call) -> Response:
    """Change what can be changed of a job: tags, properties, names, and whether it is archived."""
    job, properties = _find(call), as_object(call.body.get("properties"), "properties")
    changed = {name: properties[name] for name in MUTABLE if properties.get(name) is not None}
    take_about(changed)
    archived = changed.pop("isArchived", None)
    records.update_job(
        call.database,
        job.name,
        properties={**job.properties, **changed},
        archived=None if archived is None else bool(archived),
        display_name=str(changed["displayName"]) if changed.get("displayName") else None,
    )
    return _show(call)


def _refuse_deletion(call: Call) -> Response:
    _find(call)
    raise ServiceError(400, "UserError", "Jobs are kept: archive the job instead (`az ml job archive`).")


def _find(call: Call) -> JobRecord:
    job = records.get_job(call.database, call.name)
    if job is None:
        raise not_found(f"Job `{call.name}`")
    return job


def _show(call: Call, status: int = 200) -> Response:
    return answer(_show_job(call, _find(call)), status)


def _is_update(properties: Mapping[str, Any]) -> bool:
    """Whether a body is the job itself with other tags, as clients send it: it has the job's state."""
    return bool(properties.get("status")) or properties.get("isArchived") is True


def _list(call: Call) -> Response:
    query, (limit, after) = call.query, read_window(call)
    rows = records.select_jobs(
        call.database,
        types=_types(query.get("jobtype")),
        tag=query.get("tag"),
        archived=views(call),
        schedule=_schedule(query),
        limit=limit + 1,
        after=after or None,
    )
    return answer_page(call, rows, _show_job, read=records.read_job_row, skipped=True, token=itemgetter("id"))


def _types(text: str | None) -> list[str]:
    spellings = {"command": "Command", "pipeline": "Pipeline", "sweep": "Sweep"}
    return [spellings.get(word.strip().lower(), word) for word in text.split(",")] if text else []


def _schedule(query: Mapping[str, str]) -> str | None:
    if query.get("scheduleid"):
        return query["scheduleid"].rpartition("/")[2]
    return "" if (query.get("scheduled") or "").lower() == "true" else None


HANDLERS: Handlers = {
    "GET all": _list,
    "GET one": _show,
    "PUT one": _put,
    "PATCH one": _update,
    "DELETE one": _refuse_deletion,
    "POST one/cancel": _cancel,
}


USER = {"createdBy": "worldsize", "createdByType": "User"}
_NULLS = ("description", "computeId", "identity", "notificationSetting", "resources", "queueSettings")


def _show_job(call: Call, job: JobRecord) -> dict[str, Any]:
    """The resource of a job: what was submitted, completed with what the service knows."""
    properties = {**_defaults(job), **job.properties}
    properties |= {
        "status": job.status,
        "jobType": job.type,
        "displayName": job.display_name,
        "experimentName": job.experiment,
        "isArchived": job.archived,
        "services": _show_services(call.workspace, call.scope, job),
        "inputs": properties.get("inputs") or {},
        "outputs": show_outputs(call.scope, job),
        "properties": run_properties(job),
        "tags": properties.get("tags") or {},
    }
    if job.parent is not None:
        properties["parentJobName"] = job.parent
    return {
        "id": f"{call.scope.id}/jobs/{job.name}",
        "name": job.name,
        "type": "Microsoft.MachineLearningServices/workspaces/jobs",
        "properties": properties,
        "systemData": {"createdAt": job.created, **USER},
    }


def _defaults(job: JobRecord) -> dict[str, Any]:
    """Keys that clients read and bodies may lack."""
    defaults: dict[str, Any] = dict.fromkeys(_NULLS)
    command: dict[str, Any] = {
        "command": "",
        "environmentId": "",
        "environmentVariables": {},
        "codeId": None,
    }
    if job.type == "Command":
        defaults |= command
    if job.type == "Sweep":  # of a node: clients read these of a job
        sampling = {"samplingAlgorithmType": "Random"}
        defaults |= {"trial": command, "searchSpace": {}, "samplingAlgorithm": sampling, "objective": None}
        defaults |= {"earlyTermination": None, "limits": None}
    if job.type == "Pipeline":
        defaults |= {"jobs": {}, "settings": {}, "sourceJobId": None}
    return defaults


def _show_services(workspace: Workspace, scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The addresses of a job: its page, and where its metrics are."""
    host = workspace.endpoints.api.partition("://")[2]
    tracking, studio = f"azureml://{host}/mlflow/v1.0{scope.id}?", page_address(workspace, scope, job)
    nothing = dict.fromkeys(("status", "errorMessage", "properties", "nodes"))
    return {
        name: {"jobServiceType": name, "port": None, "endpoint": endpoint, **nothing}
        for name, endpoint in (("Tracking", tracking), ("Studio", studio))
    }


def page_address(workspace: Workspace, scope: Scope, job: JobRecord) -> str:
    """The address of a job's page; clients append other parameters to it with ``&``."""
    return f"{workspace.endpoints.page.rstrip('/')}/jobs/{quote(job.name)}?wsid={scope.id}"


def show_outputs(scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The outputs with the places where they will be; the default one has the logs."""
    declared = mapping_of(job.properties, "outputs")
    shown: dict[str, Any] = {}
    for output in list_outputs(job):
        shown[output.name] = {
            "description": None,
            "mode": "ReadWriteMount",
            **mapping_of(declared, output.name),
            "jobOutputType": output.type,
            "uri": output.uri or output_uri(scope, job.name, output.name, output.type),
        }
    default = {
        "description": None,
        "uri": f"azureml://datastores/{ARTIFACT_STORE}/{run_blob_path(job.name, '')}",
        "mode": "ReadWriteMount",
        "jobOutputType": "uri_folder",
    }
    return {**shown, "default": default}


def run_properties(job: JobRecord) -> dict[str, str]:
    """The properties of a job's run, with those that the service adds."""
    kind = {"Pipeline": "azureml.PipelineRun", "Sweep": "azureml.HyperDrive"}.get(
        job.type, "azureml.CommandRun"
    )
    added = {"azureml.runsource": kind, "ContentSnapshotId": job.name, "_azureml.ClusterName": ""}
    if job.parent is not None:
        added |= {"azureml.pipelinerunid": job.root, "azureml.moduleName": job.display_name}
    return {**added, **texts_of(job.properties, "properties")}
