"""The paths of MLflow: ``/mlflow/v2.0/<workspace>/api/…``, and ``/mlflow/v2.0/api/…`` for plain MLflow.

Requests pass to MLflow's server, with the locations of artifacts translated on the way. What azureml-mlflow
and Azure ML have beside MLflow's own interface is answered here: ``experiments/list`` (gone from MLflow's
server) and ``runs/log-batch-async``.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import aiohttp
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from worldsize.serving.control.call import read_body
from worldsize.serving.database import check_values
from worldsize.serving.errors import ServiceError, answer, bad_request
from worldsize.serving.home import Home
from worldsize.serving.jobs import records
from worldsize.serving.storage.artifacts import (
    CONTAINER,
    RUN_ID,
    RunArtifact,
    find_artifact,
    local_folder_of,
    parts_below,
    path_of_file_uri,
    prepare_run_folder,
    run_artifact,
    run_blob_path,
    unknown_artifact,
)
from worldsize.serving.storage.blob_requests import read_chunks
from worldsize.serving.storage.blobs import delete_blob, list_pages, read_blob
from worldsize.serving.storage.files import StorageError, blob_name, is_inside, locate
from worldsize.serving.storage.uploads import receive_blob
from worldsize.serving.tracking.server import mlflow_session, sync_when_ready
from worldsize.serving.workspace import Workspace
from worldsize.tracking.runs import artifact_uri
from worldsize.tracking.versions import set_source

METHODS = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]
SCOPE = re.compile(
    r"(subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+/workspaces/[^/]+)/(api/.*)", re.IGNORECASE
)
ARTIFACTS = re.compile(r"api/2\.0/mlflow-artifacts/artifacts(?:/(.*))?", re.DOTALL)


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes."""

    async def respond(request: Request) -> Response:
        rest = request.path_params["rest"]
        if rest.startswith("api/"):  # plain MLflow, which names no workspace
            artifact = ARTIFACTS.fullmatch(rest)
            if artifact is not None:
                return await _answer_artifact(workspace, request, artifact[1] or "")
            return await forward(workspace, request, rest, ArtifactUris(workspace.home, None))
        match = SCOPE.fullmatch(rest)
        if match is None:
            raise ServiceError(404, "NotFound", "The path names no workspace, or nothing of MLflow.")
        host = urlsplit(workspace.endpoints.api).netloc
        base = f"azureml://{host}/artifact/v2.0/{match[1]}"
        return await forward(workspace, request, match[2], ArtifactUris(workspace.home, base))

    return [
        Route("/mlflow/v1.0/{rest:path}", respond, methods=METHODS),
        Route("/mlflow/v2.0/{rest:path}", respond, methods=METHODS),
    ]


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
    """Answer a client's request to MLflow, by a path such as ``api/2.0/mlflow/runs/create``.

    Raises:
        ServiceError: The request is not for MLflow, or its server does not run.
    """
    if not path.startswith("api/") or ".." in path.split("/"):
        raise ServiceError(404, "NotFound", f"There is nothing at `{path[:200]}`.")
    headers = {name: request.headers[name] for name in PASSED if name in request.headers}
    call = MlflowCall(request.method, path, request.url.query, await read_body(request, MAX_BODY), headers)
    document = await asyncio.to_thread(_read_document, call)
    operation = path.partition("/mlflow/")[2]
    if operation.startswith(REGISTRY):
        await sync_when_ready(workspace)
    if operation == "experiments/list":
        call = _list_experiments(call, {**request.query_params, **document})
    elif operation == "runs/log-batch-async":
        # Written before it is answered: the answer names no batch to wait for.
        call = replace(call, method="POST", path="api/2.0/mlflow/runs/log-batch", query="")
    elif operation == "runs/get-run-data-status":
        return answer({"is_complete": True})
    elif (listed := LISTED.fullmatch(operation)) is not None:
        values = {**document, **request.query_params}
        call, files = await asyncio.to_thread(_list_artifacts, workspace, call, values, listed[1])
        if files is not None:
            return rewrite(uris, 200, "application/json", json.dumps(files).encode())
    elif operation == "model-versions/create":
        return await _place_version(workspace, uris, call)
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


def _read_document(call: MlflowCall) -> dict[str, Any]:
    """The JSON object of a body, if it has one.

    Raises:
        ServiceError: 400, MLflow's server would answer with an internal error: the body claims to be JSON,
            but is not an object, or has too many levels.
    """
    is_json = "json" in call.headers.get("content-type", "")
    try:
        document = json.loads(call.body or b"{}")  # it reads NaN, as MLflow does
    except (ValueError, RecursionError) as error:
        if is_json:
            raise bad_request(f"The body is not JSON: {error}") from None
        return {}
    if is_json and not isinstance(document, dict):
        raise bad_request("The body must be a JSON object.")
    check_values(document)
    return document if isinstance(document, dict) else {}


def _list_experiments(call: MlflowCall, values: Mapping[str, Any]) -> MlflowCall:
    """The search that answers a list of experiments."""
    wanted: dict[str, Any] = {key: values[key] for key in ("view_type", "page_token") if key in values}
    most = str(values.get("max_results", "1000"))
    wanted["max_results"] = int(most) if most.isdecimal() and len(most) < 10 else 1000
    path = call.path.replace("experiments/list", "experiments/search")
    return MlflowCall("POST", path, "", json.dumps(wanted).encode(), {"content-type": "application/json"})


def _list_artifacts(
    workspace: Workspace, call: MlflowCall, values: Mapping[str, Any], model: str | None
) -> tuple[MlflowCall, dict[str, Any] | None]:
    """The artifacts of a run or of a logged model: MLflow's server would list whatever a location names.

    Returns:
        A request that names nothing else, and the answer; None for what MLflow does not know.

    Raises:
        ServiceError: 400, the artifacts are outside of the home, or the path leads there.
    """
    owner = str(model or values.get("run_id") or values.get("run_uuid") or "")
    folder = str(values.get("artifact_directory_path" if model else "path") or "")
    call = MlflowCall("GET", call.path, "" if model else urlencode({"run_id": owner}), b"", call.headers)
    root = artifact_uri(workspace.home.root, owner)
    if root is None:
        return call, None
    if local_folder_of(workspace.home, owner) is None:
        raise bad_request(f"The artifacts of `{owner}` are outside of the home: `{root[:200]}`.")
    files = list_folder(workspace, f"{owner}/{folder}")
    above = f"{folder.strip('/')}/" if folder.strip("/") else ""
    return call, {"root_uri": root, "files": [{**file, "path": above + file["path"]} for file in files]}


async def _place_version(workspace: Workspace, uris: ArtifactUris, call: MlflowCall) -> Response:
    """Register a version of a model whose files are in the home, as a client asks for it.

    MLflow's server takes a local source only from within the artifacts of a run that the request names. So
    the version is created with the source that the client named, and its row then gets the file that it
    means, which jobs load without a server.
    """
    status, kind, body = await send(workspace, call)
    if status == 200:
        version: dict[str, Any] = json.loads(body)["model_version"]
        file = uris.to_store(str(version.get("source", "")))
        if file != version.get("source"):
            await asyncio.to_thread(
                set_source, workspace.home.root, version["name"], version["version"], file
            )
            version["source"] = file
        body = json.dumps({"model_version": uris.rewrite(version)}).encode()
    return Response(body, status, media_type=kind)


async def _answer_artifact(workspace: Workspace, request: Request, path: str) -> Response:
    """Answer a request for ``/mlflow-artifacts/artifacts/<run>/<path>``."""
    if request.method == "GET" and not path:
        files = await asyncio.to_thread(list_folder, workspace, request.query_params.get("path", ""))
        return answer({"files": files})
    name = _blob(workspace, path)
    if request.method == "PUT":
        await receive_blob(workspace, request, CONTAINER, name)
        return answer({})
    blob = read_blob(workspace, CONTAINER, name)
    if blob is None:
        raise unknown_artifact(path)
    if request.method == "DELETE":
        await asyncio.to_thread(delete_blob, workspace, blob)
        return answer({})
    headers = {"Content-Length": str(blob.size), "X-Content-Type-Options": "nosniff"}
    return StreamingResponse(
        read_chunks(blob, 0, blob.size), headers=headers, media_type="application/octet-stream"
    )


def list_folder(workspace: Workspace, path: str) -> list[dict[str, Any]]:
    """The files and folders directly below a folder, by their last names; no link leads outside the home.

    Raises:
        ServiceError: 400, for what is not ``<run>/<path>``, or leads outside.
    """
    prefix = _blob(workspace, path) + "/"
    files: list[dict[str, Any]] = []
    for page in list_pages(workspace.home, CONTAINER, prefix=prefix, delimiter="/"):
        files += [
            {"path": folder.removeprefix(prefix).strip("/"), "is_dir": True} for folder in page.prefixes
        ]
        files += [
            {"path": blob.name.removeprefix(prefix), "is_dir": False, "file_size": blob.size}
            for blob in page.blobs
        ]
    return files


def _blob(workspace: Workspace, path: str) -> str:
    """The blob of an artifact, whose run's folder exists then."""
    run, _, rest = blob_name(path).partition("/")
    prepare_run_folder(workspace.home, run)
    return run_blob_path(run, rest)


KEYS = frozenset(("artifact_uri", "artifact_location", "source", "storage_location"))
TAG = "mlflow.artifactLocation"  # of a trace
PLAIN = "mlflow-artifacts:/"
RUN_URI = re.compile(r"azureml://[^/]*/artifact/[^?#]{0,1000}/runs/([^/?#]+)/artifacts(?:/([^?#]*))?")


@dataclass(frozen=True, slots=True)
class ArtifactUris:
    """Translates the locations of one home for one client.

    ``base`` is ``azureml://<host>/artifact/v2.0/<workspace>`` for azureml-mlflow, None for plain MLflow.
    """

    home: Home
    base: str | None

    def rewrite(self, document: Any) -> Any:
        """An answer of MLflow with the locations that the client can reach."""
        if isinstance(document, list):
            return [self.rewrite(item) for item in document]
        if not isinstance(document, dict):
            return document
        experiment = str(document.get("experiment_id", "0"))
        is_tag = document.get("key") == TAG
        changed = {}
        for key, value in document.items():
            if isinstance(value, str):
                located = key in KEYS or (is_tag and key == "value")
                changed[key] = self.to_client(value, experiment) if located else value
            else:
                changed[key] = self.rewrite(value)
        return changed

    def to_client(self, location: str, experiment: str) -> str:
        """The location that the client is told; the same for one that is not in the home."""
        path = path_of_file_uri(location)
        if path is None:
            return location
        artifact = run_artifact(self.home, path)
        if artifact is not None:
            return self._run_location(artifact, experiment)
        parts = parts_below(self.home.artifacts, path) or ()
        if self.base is None:
            return location
        if len(parts) == 1:
            return f"{self.base}/experiments/{quote(parts[0])}"
        name = find_artifact(self.home, path)
        return location if name is None else f"azureml://artifacts/{name}"

    def to_store(self, location: str) -> str:
        """The file that a client's location means; the same for any other location."""
        path = self._client_path(location)
        if path is None or not is_inside(self.home, path):
            return location
        return path.as_uri()

    def _client_path(self, location: str) -> Path | None:
        match = RUN_URI.fullmatch(location)
        try:
            if match is not None and RUN_ID.fullmatch(match[1]):
                folder = local_folder_of(self.home, match[1])
                return None if folder is None else folder / blob_name(match[2] or "")
            if location.startswith("azureml://artifacts/"):
                return locate(self.home, CONTAINER, location.removeprefix("azureml://artifacts/"))
            if location.startswith(PLAIN):
                run, _, rest = unquote(location.removeprefix(PLAIN)).lstrip("/").partition("/")
                folder = local_folder_of(self.home, run)
                return None if folder is None else folder / blob_name(rest)
        except StorageError:
            return None
        return None

    def _run_location(self, artifact: RunArtifact, experiment: str) -> str:
        tail = f"/{artifact.path}" if artifact.path else ""
        if self.base is None:
            return f"{PLAIN}{artifact.run}{quote(tail)}"
        return f"{self.base}/experiments/{quote(experiment, safe='')}/runs/{artifact.run}/artifacts{tail}"
