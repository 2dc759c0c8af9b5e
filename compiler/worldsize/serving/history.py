"""The run history, with a run for each job and each part of one, and what the data service says of assets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.control.call import LONGEST_NAME, answer_beside, read_object, take_about
from worldsize.serving.control.paths import find_asset, parse_asset
from worldsize.serving.database import EPOCH, text_of, texts_of, use_each
from worldsize.serving.errors import bad_request, encode, not_found
from worldsize.serving.front.guard import sign_path
from worldsize.serving.jobs import job_files, records
from worldsize.serving.jobs.control import page_address, run_properties
from worldsize.serving.jobs.job_files import list_outputs, output_uri
from worldsize.serving.jobs.queue import cancel
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.jobs.translate.body import as_object
from worldsize.serving.storage.artifacts import run_blob_path
from worldsize.serving.tracking.models import sync_for
from worldsize.serving.workspace import ARTIFACT_STORE, CONTAINERS, LOCATION, Scope, Workspace

_PREFIX = "/subscriptions/{subscription}/{groups}/{group}/providers/{provider}/workspaces/{workspace}"
MAX_RUNS, MAX_CHILDREN = 500, 10_000  # of one answer
Handler = Callable[["RunRequest"], object]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A request to the run history, with the JSON object of its body."""

    workspace: Workspace
    names: Mapping[str, str]  # in the path
    body: Mapping[str, Any]

    @property
    def scope(self) -> Scope:
        """The names of the workspace."""
        return Scope(self.names["subscription"], self.names["group"], self.names["workspace"])

    def find(self, name: str | None = None) -> JobRecord:
        """The job of a run: of the one that the path names by default.

        Raises:
            ServiceError: There is none.
        """
        name = self.names["run"] if name is None else name
        job = records.get_job(self.workspace.database, name)
        if job is None:
            raise not_found(f"Run `{name}`")
        return job

    def show(self, job: JobRecord) -> dict[str, Any]:
        """The run of a job."""
        return _show_run(self.workspace, self.scope, job)

    def show_all(self, jobs: Iterable[JobRecord]) -> object:
        """The answer with those runs that can be shown."""
        shown = use_each("run", jobs, lambda job: encode(self.show(job)))
        return {"value": [msgspec.Raw(text) for text in shown]}


def _get_children(call: RunRequest) -> object:
    return call.show_all(records.children(call.workspace.database, call.find().name, MAX_CHILDREN))


def _list_runs(call: RunRequest) -> object:
    experiment, database = call.names.get("experiment"), call.workspace.database
    rows = records.select_jobs(database, archived=(False, True), experiment=experiment, limit=MAX_RUNS)
    return call.show_all(use_each("run", rows, records.read_job_row))


def _modify(call: RunRequest) -> object:
    job, body = call.find(), call.body
    properties = dict(job.properties)
    for name in ("tags", "properties"):
        if body.get(name) is not None:
            properties[name] = {**(properties.get(name) or {}), **as_object(body[name], name)}
    if isinstance(body.get("description"), str):
        properties["description"] = body["description"]
    take_about({**properties, "displayName": body.get("displayName")}, "")
    title, hidden = body.get("displayName") or body.get("name"), body.get("hidden")
    records.update_job(
        call.workspace.database,
        job.name,
        properties=properties,
        archived=None if hidden is None else bool(hidden),
        display_name=str(title)[:LONGEST_NAME] if title else None,
    )
    return call.show(call.find())


async def _cancel(call: RunRequest) -> object:
    job = await cancel(call.workspace, call.names["run"])
    return await asyncio.to_thread(call.show, job)


def _get_data(call: RunRequest) -> object:
    run = call.show(call.find(str(call.body.get("runId"))))
    return {"runMetadata": run, "runDefinition": {}, "jobSpecification": None}


def _resolve(call: RunRequest) -> dict[str, dict[str, Any]]:
    """The address and type of each asset by its id; ids that name nothing are left out."""
    values = call.body.get("values")
    ids = [str(value) for value in values] if isinstance(values, list) else []
    if len(ids) > MAX_IDS:
        raise bad_request(f"`values` has {len(ids):,} ids, of which {MAX_IDS:,} are allowed.")
    resolved = use_each("asset", ids, lambda asset_id: (asset_id, _resolve_asset(call, asset_id)), str)
    return {asset_id: asset for asset_id, asset in resolved if asset is not None}


def _resolve_models(call: RunRequest) -> object:
    return {"values": {name: {"path": asset["uri"], **asset} for name, asset in _resolve(call).items()}}


def _get_store(call: RunRequest) -> object:
    """A datastore, as azureml-fsspec and mltable ask for it."""
    name = call.names["name"]
    if (container := CONTAINERS.get(name)) is None:
        raise not_found(f"Datastore `{name}`")
    section = {
        "accountName": call.workspace.endpoints.account,
        "containerName": container,
        "endpoint": "core.windows.net",
        "protocol": "https",
        "credentialType": "Sas",
        "credential": sign_path(call.workspace, container),
        "isSas": True,
        "blobCacheTimeout": 0,
    }
    store = {"name": name, "dataStoreType": "AzureBlob", "hasBeenValidated": True, "tags": {}}
    return {**store, "azureStorageSection": section}


_HISTORY = f"/history/v1.0{_PREFIX}"
_HOLDERS = ("", "/experiments/{experiment}", "/experimentids/{experiment}")
_RUNS: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "", _list_runs),
    ("GET", "/{run}", lambda call: call.show(call.find())),
    ("PATCH", "/{run}", _modify),
    ("GET", "/{run}/details", lambda call: _show_details(call, call.find())),
    ("GET", "/{run}/children", _get_children),
    ("POST", "/{run}/cancel", _cancel),
    # What clients tell of their own runs, such as a heartbeat; the states are known here.
    ("POST", "/{run}/events", lambda call: call.find() and {}),
    # The services of a job's node, such as a debugger that the cluster lets in: there is none here.
    ("GET", "/{run}/serviceinstances/{node}", lambda call: call.find() and {"instances": {}}),
)
_PATHS: tuple[tuple[str, str, Handler], ...] = (
    *((method, f"{_HISTORY}{holder}/runs{path}", do) for holder in _HOLDERS for method, path, do in _RUNS),
    ("POST", f"{_HISTORY}/rundata", _get_data),
    (
        "POST",
        f"/data/v1.0{_PREFIX}/dataversion/batchGetResolvedUris",
        lambda call: {"values": _resolve(call)},
    ),
    ("POST", f"/modelregistry/v1.0{_PREFIX}/models/batchGetResolvedUris", _resolve_models),
    ("GET", f"/datastore/v1.0{_PREFIX}/datastores/{{name}}", _get_store),
)


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of the run history of jobs, and of what other services say of assets and datastores."""

    async def respond(method: str, handler: Handler, request: Request) -> Response:
        body = await read_object(request) if method != "GET" else {}
        call = RunRequest(workspace, request.path_params, body)
        return await answer_beside(workspace, method, partial(handler, call))

    return [Route(path, partial(respond, method, do), methods=[method]) for method, path, do in _PATHS]


MAX_IDS = 1000  # of one request
# The id of an output: `…/data/azureml_{job}_output_{name}/versions/1`.
_BEFORE, _BETWEEN, _AFTER = "/data/azureml_", "_output_", "/versions/1"


def _resolve_asset(call: RunRequest, asset_id: str) -> dict[str, Any] | None:
    database = call.workspace.database
    words = asset_id.removesuffix(_AFTER).rpartition(_BEFORE)[2] if asset_id.endswith(_AFTER) else ""
    job_name, _, output_name = words.rpartition(_BETWEEN)
    job = records.get_job(database, job_name) if job_name else None
    if job is not None:
        output = next((declared for declared in list_outputs(job) if declared.name == output_name), None)
        if output is None:
            return None
        uri = output_uri(call.scope, job.name, output.name, output.type)
        return {"uri": uri, "type": ASSET_TYPES.get(output.type, output.type)}
    name = parse_asset(asset_id)
    if name is None:
        return None
    sync_for(call.workspace, asset_id)
    for kind, key, type_key in (("data", "dataUri", "dataType"), ("models", "modelUri", "modelType")):
        asset = find_asset(database, kind, name) if name.kind in ("", kind) else None
        if asset is not None:
            return {"uri": asset.properties.get(key), "type": asset.properties.get(type_key)}
    return None


RUN_TYPES = {"Pipeline": "azureml.PipelineRun", "Sweep": "hyperdrive"}
# The types of assets in the words of the run history, which differ for models.
ASSET_TYPES = {"mlflow_model": "MLFlowModel", "custom_model": "CustomModel", "triton_model": "TritonModel"}


def _show_run(workspace: Workspace, scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The run of a job."""
    return {
        "runNumber": job.id,
        "rootRunId": job.root,
        "rootRunUuid": job.root,
        "runUuid": job.name,
        "runId": job.name,
        "parentRunId": job.parent,
        "parentRunUuid": job.parent,
        "experimentId": job.experiment,
        "experimentName": job.experiment,
        "status": job.status,
        "createdUtc": job.created,
        "startTimeUtc": job.started,
        "endTimeUtc": job.ended,
        "lastModifiedUtc": job.ended or job.started or job.created,
        "duration": _duration(job),
        "error": _show_error(job),
        "warnings": None,
        "displayName": job.display_name,
        "name": job.display_name,
        "description": text_of(job.properties, "description") or None,
        "dataContainerId": f"dcid.{job.name}",
        "hidden": job.archived,
        "runType": RUN_TYPES.get(job.type, "azureml.StepRun" if job.parent else "azureml.commandjob"),
        "runTypeV2": {"orchestrator": None, "traits": [], "attribution": None, "computeType": None},
        "properties": run_properties(job),
        "tags": texts_of(job.properties, "tags"),
        "inputs": {},
        "outputs": _show_outputs(scope, job),
        "target": text_of(job.properties, "computeId") or None,
        "createdBy": {"userName": "worldsize"},
        "services": {"Studio": {"endpoint": page_address(workspace, scope, job)}},
    }


def _show_details(call: RunRequest, job: JobRecord) -> dict[str, Any]:
    """The details of a run, which clients ask for again and again while they stream its logs."""
    return {
        **call.show(job),
        "createdTimeUtc": job.created,
        "logFiles": _show_logs(call.workspace, job),
        "runDefinition": {},
        "submittedBy": "worldsize",
    }


def _show_logs(workspace: Workspace, job: JobRecord) -> dict[str, str]:
    """The signed addresses of a run's logs by their paths."""
    container = CONTAINERS[ARTIFACT_STORE]
    signature = sign_path(workspace, container)
    prefix = f"{workspace.endpoints.blob}/{container}/{run_blob_path(job.name, '')}"
    logs = job_files.list_logs(workspace.home, job.name)
    return {log: f"{prefix}/{quote(log)}?{signature}" for log in logs}


def _show_error(job: JobRecord) -> dict[str, Any] | None:
    if job.error_message is None:
        return None
    error = {
        "code": job.error_code or "UserError",
        "message": job.error_message,
        "messageParameters": {},
        "details": [],
    }
    return {"error": error, "time": job.ended, "componentName": "worldsize"}


def _show_outputs(scope: Scope, job: JobRecord) -> dict[str, Any]:
    """The ids of a run's outputs, under which their addresses are asked for.

    A model is said to be the folder that it is: azure-ai-ml 1.35 fails to ask for the address of a model
    (`BatchGetResolvedUrisDto` does not take the argument that it gives).
    """
    return {
        output.name: {
            "assetId": f"azureml://locations/{LOCATION}/workspaces/{scope.workspace}"
            f"/data/azureml_{job.name}_output_{output.name}/versions/1",
            "type": "uri_folder" if output.type in ASSET_TYPES else output.type,
        }
        for output in list_outputs(job)
    }


def _duration(job: JobRecord) -> str | None:
    seconds = job.seconds()
    if seconds is None:
        return None
    length = timedelta(seconds=seconds)
    clock = f"{EPOCH + length:%H:%M:%S.%f}"
    return f"{length.days}.{clock}" if length.days else clock
