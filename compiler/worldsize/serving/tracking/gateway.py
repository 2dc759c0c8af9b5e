"""Passes requests to MLflow's server, with the locations of artifacts translated on the way.

What azureml-mlflow and Azure ML have beside MLflow's own interface is answered here:
``experiments/list`` (gone from MLflow's server) and ``runs/log-batch-async``.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from starlette.requests import Request
from starlette.responses import Response

from worldsize.serving.artifacts.folders import local_folder_of
from worldsize.serving.control.document import read_body
from worldsize.serving.database import check_values
from worldsize.serving.errors import ServiceError, answer, bad_request
from worldsize.serving.jobs import records
from worldsize.serving.tracking.proxied import list_folder
from worldsize.serving.tracking.registry import place_version
from worldsize.serving.tracking.server import mlflow_session, sync_when_ready
from worldsize.serving.tracking.uris import ArtifactUris
from worldsize.serving.workspace import Workspace
from worldsize.tracking.runs import artifact_uri

MAX_BODY = 4 << 20  # bytes: four times MLflow's own batches
LISTED = re.compile(r"artifacts/list|logged-models/([^/]+)/artifacts/directories")
REGISTRY = ("registered-models/", "model-versions/")
COMING_SECONDS, LOOK_SECONDS = 30.0, 0.2  # for the run of a job that is about to start
PASSED = ("content-type", "accept", "user-agent", "x-mlflow-workspace")


@dataclass(frozen=True, slots=True)
class MlflowCall:
    """A request to MLflow's server.

    ``path`` begins with ``api/2.0/mlflow/`` or another version's; ``method`` and ``body`` may differ from
    those of the client.
    """

    method: str
    path: str
    query: str
    body: bytes
    headers: dict[str, str]


async def forward(workspace: Workspace, request: Request, path: str, uris: ArtifactUris) -> Response:
    """Answer a client's request to MLflow.

    Args:
        workspace: The workspace.
        request: The request.
        path: What follows the workspace's prefix: ``api/2.0/mlflow/runs/create``.
        uris: Translates the locations of artifacts for the client.

    Raises:
        ServiceError: The request is not for MLflow, or its server does not run.
    """
    if not path.startswith("api/") or ".." in path.split("/"):
        raise ServiceError(404, "NotFound", f"There is nothing at `{path[:200]}`.")
    call = MlflowCall(
        request.method, path, request.url.query, await read_body(request, MAX_BODY), _headers(request)
    )
    await asyncio.to_thread(_check_body, call)
    operation = path.partition("/mlflow/")[2]
    if operation.startswith(REGISTRY):
        await sync_when_ready(workspace)
    if operation == "experiments/list":
        call = _list_experiments(request, call)
    elif operation == "runs/log-batch-async":
        call = _log_batch(call)
    elif operation == "runs/get-run-data-status":
        return answer({"is_complete": True})
    elif (listed := LISTED.fullmatch(operation)) is not None:
        call, files = await asyncio.to_thread(_list_artifacts, workspace, request, call, listed[1])
        if files is not None:
            return rewrite(uris, 200, "application/json", json.dumps(files).encode())
    elif operation == "model-versions/create":
        return await place_version(workspace, uris, call, send)
    reply = await send(workspace, call)
    until = time.monotonic() + COMING_SECONDS
    while reply[0] == 404 and _is_coming(workspace, request) and time.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)
        reply = await send(workspace, call)
    return await asyncio.to_thread(rewrite, uris, *reply)


async def send(workspace: Workspace, call: MlflowCall) -> tuple[int, str, bytes]:
    """The status, type and body of MLflow's answer.

    Raises:
        ServiceError: 503, if its server does not run.
    """
    url = f"http://localhost/{quote(call.path)}" + (f"?{call.query}" if call.query else "")
    session = mlflow_session(workspace)
    try:
        async with session.request(call.method, url, data=call.body or None, headers=call.headers) as reply:
            return reply.status, reply.content_type, await reply.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise ServiceError(503, "ServiceUnavailable", f"MLflow's server does not answer: {reason}") from None


def _is_coming(workspace: Workspace, request: Request) -> bool:
    """Whether a request asks for the run of a job that has not ended: in Azure a run exists with its job."""
    name = request.query_params.get("run_id")
    job = records.get_job(workspace.database, name) if name and request.method == "GET" else None
    return job is not None and not job.has_ended


def rewrite(uris: ArtifactUris, status: int, kind: str, body: bytes) -> Response:
    """MLflow's answer as the client gets it."""
    home = str(uris.home.root.absolute()).encode()
    if kind == "application/json" and (b"file:" in body or home in body):
        body = json.dumps(uris.rewrite(json.loads(body))).encode()
    return Response(body, status, media_type=kind)


def _check_body(call: MlflowCall) -> None:
    """Refuse what MLflow's server answers with an internal error.

    Raises:
        ServiceError: 400, the body is JSON, but not an object, or has too many levels.
    """
    if not call.body or "json" not in call.headers.get("content-type", ""):
        return
    try:
        document = json.loads(call.body)  # it reads NaN, as MLflow does
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("The body must be a JSON object.")
    check_values(document)


def _headers(request: Request) -> dict[str, str]:
    return {name: request.headers[name] for name in PASSED if name in request.headers}


def _list_experiments(request: Request, call: MlflowCall) -> MlflowCall:
    """The search that answers a list of experiments."""
    given: dict[str, Any] = {**request.query_params, **_json_object(call.body)}
    wanted: dict[str, Any] = {key: given[key] for key in ("view_type", "page_token") if key in given}
    most = str(given.get("max_results", "1000"))
    wanted["max_results"] = int(most) if most.isdecimal() and len(most) < 10 else 1000
    path = call.path.replace("experiments/list", "experiments/search")
    return MlflowCall("POST", path, "", json.dumps(wanted).encode(), {"content-type": "application/json"})


def _list_artifacts(
    workspace: Workspace, request: Request, call: MlflowCall, model: str | None
) -> tuple[MlflowCall, dict[str, Any] | None]:
    """The artifacts of a run or of a logged model: MLflow's server would list whatever a location names.

    Returns:
        A request that names nothing else, and the answer; None for what MLflow does not know.

    Raises:
        ServiceError: 400, the artifacts are outside of the home, or the path leads there.
    """
    given = {**_json_object(call.body), **request.query_params}
    owner = str(model or given.get("run_id") or given.get("run_uuid") or "")
    folder = str(given.get("artifact_directory_path" if model else "path") or "")
    call = MlflowCall("GET", call.path, "" if model else urlencode({"run_id": owner}), b"", call.headers)
    root = artifact_uri(workspace.home.root, owner)
    if root is None:
        return call, None
    if local_folder_of(workspace.home, owner) is None:
        raise bad_request(f"The artifacts of `{owner}` are outside of the home: `{root[:200]}`.")
    files = list_folder(workspace, f"{owner}/{folder}")
    above = f"{folder.strip('/')}/" if folder.strip("/") else ""
    return call, {"root_uri": root, "files": [{**each, "path": above + each["path"]} for each in files]}


def _log_batch(call: MlflowCall) -> MlflowCall:
    """The same batch, written before it is answered: the answer names no batch to wait for."""
    return MlflowCall("POST", "api/2.0/mlflow/runs/log-batch", "", call.body, call.headers)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
