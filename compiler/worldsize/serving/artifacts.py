"""The artifact service: its paths by origin and container or by run, and what it answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.control.call import answer_beside, read_object
from worldsize.serving.errors import ServiceError, bad_request
from worldsize.serving.front.guard import sign_path
from worldsize.serving.storage.artifacts import (
    CONTAINER,
    RUN_CONTAINER,
    RUN_ID,
    RUNS,
    blob_path,
    find_run_folder,
    prepare_run_folder,
    unknown_artifact,
)
from worldsize.serving.storage.blob_requests import send_blob
from worldsize.serving.storage.blobs import Blob, delete_blob, list_pages, read_blob
from worldsize.serving.storage.files import blob_name
from worldsize.serving.storage.uploads import receive_blob
from worldsize.serving.workspace import ARTIFACT_STORE, Workspace

METHODS = ["GET", "POST", "DELETE"]
PREFIX = r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+/workspaces/[^/]+/"
OF_ORIGIN = re.compile(PREFIX + r"artifacts/([^/]+)/([^/]+)(?:/(.*))?", re.IGNORECASE)
# Of run history, only what is below a run's artifacts; the words that name the segments come in any case.
OF_RUN = (
    "/history/v1.0/{subscriptions}/{subscription}/{groups}/{group}/{providers}/{provider}/{workspaces}/{workspace}"
    "/{experiments}/{experiment}/{runs}/{run}/artifacts"
)


Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ArtifactContainer:
    """Artifacts of one origin (``ExperimentRun``, ``LocalUpload``): those of a run are in ``dcid.<run>``."""

    workspace: Workspace
    origin: str
    name: str

    def blob(self, path: str) -> str:
        """The blob of an artifact."""
        return blob_path(self.origin, self.name, blob_name(path))

    def prepare(self) -> None:
        """Make the folder, where that is not for the first upload to do."""
        if self._run is not None:
            prepare_run_folder(self.workspace.home, self._run)

    def find(self, path: str) -> Blob:
        """An artifact that exists.

        Raises:
            ServiceError: 404.
        """
        self._show()
        blob = read_blob(self.workspace, CONTAINER, self.blob(path))
        if blob is None:
            raise unknown_artifact(path)
        return blob

    def list_paths(self, prefix: str = "") -> Iterator[Blob]:
        """The artifacts whose paths begin with a text, in the order of their paths."""
        self._show()
        start = f"{self.origin}/{self.name}/"
        for page in list_pages(self.workspace.home, CONTAINER, prefix=start + prefix):
            yield from page.blobs

    def path_of(self, blob: Blob) -> str:
        """The path of an artifact in the container."""
        return blob.name.removeprefix(f"{self.origin}/{self.name}/")

    def describe(self, path: str, blob: Blob | None = None) -> Document:
        """The artifact itself (``ArtifactDto``)."""
        identity = f"{self.origin}/{self.name}/{path}"
        written = blob.modified.isoformat() if blob is not None else None
        return {
            "artifactId": identity,
            "origin": self.origin,
            "container": self.name,
            "path": path,
            "etag": blob.etag if blob is not None else None,
            "createdTime": written,
            "dataPath": {"dataStoreName": ARTIFACT_STORE, "relativePath": identity},
            "tags": {},
        }

    def content(self, path: str, _blob: Blob | None = None) -> Document:
        """Where a client reads or writes the artifact (``ArtifactContentInformationDto``)."""
        address = f"{self.workspace.endpoints.blob}/{CONTAINER}/{quote(self.blob(path))}"
        uri = f"{address}?{sign_path(self.workspace, CONTAINER)}"
        return {"contentUri": uri, "origin": self.origin, "container": self.name, "path": path, "tags": {}}

    def create(self, paths: Sequence[str]) -> Document:
        """Say where artifacts are to be uploaded; one that exists is an error: none is overwritten."""
        self.prepare()
        artifacts, contents, errors = Document(), Document(), Document()
        for path in paths:
            if read_blob(self.workspace, CONTAINER, self.blob(path)) is not None:
                message = f"Resource Conflict: ArtifactId {self.origin}/{self.name}/{path} already exists."
                errors[path] = {"error": {"code": "UserError", "message": message}}
                continue
            artifacts[path] = self.describe(path)
            contents[path] = self.content(path)
        return {"artifacts": artifacts, "artifactContentInformation": contents, "errors": errors}

    @property
    def _run(self) -> str | None:
        """The run that the container is of."""
        is_run = self.origin == RUNS and self.name.startswith(RUN_CONTAINER)
        return self.name.removeprefix(RUN_CONTAINER) if is_run else None

    def _show(self) -> None:
        """Make what MLflow has stored for the run visible among the blobs."""
        if self._run is not None:
            find_run_folder(self.workspace.home, self._run)


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes."""
    nothing = ServiceError(404, "NotFound", "The path names no artifacts.")

    async def by_origin(request: Request) -> Response:
        match = OF_ORIGIN.fullmatch("/" + request.path_params["rest"])
        if match is None:
            raise nothing
        container = ArtifactContainer(workspace, match[1], match[2])
        return await _answer(container, request, match[3] or "")

    async def by_run(request: Request) -> Response:
        run = request.path_params["run"]
        if RUN_ID.fullmatch(run) is None:
            raise nothing
        container = ArtifactContainer(workspace, RUNS, RUN_CONTAINER + run)
        return await _answer(container, request, request.path_params.get("operation", ""))

    return [
        Route("/artifact/v1.0/{rest:path}", by_origin, methods=METHODS),
        Route("/artifact/v2.0/{rest:path}", by_origin, methods=METHODS),
        Route(OF_RUN, by_run, methods=METHODS),
        Route(OF_RUN + "/{operation:path}", by_run, methods=METHODS),
    ]


Handler = Callable[[ArtifactContainer, Request], object]  # what `answer_beside` takes


def _read_paths(document: Document) -> list[str]:
    listed = document.get("paths")
    if not isinstance(listed, list):
        raise bad_request("`paths` must be a list.")
    paths = [entry.get("path") if isinstance(entry, dict) else None for entry in listed]
    texts = [path for path in paths if isinstance(path, str) and path]
    if len(texts) != len(paths):
        raise bad_request("Each of `paths` must have a `path`.")
    return texts


async def _create_batch(container: ArtifactContainer, request: Request) -> object:
    paths = _read_paths(await read_object(request))
    return await asyncio.to_thread(container.create, paths)


def _list_all(describe: Callable[[ArtifactContainer, str, Blob], object]) -> Handler:
    """List artifacts; ``path`` is what theirs begin with."""

    def list_described(container: ArtifactContainer, request: Request) -> object:
        blobs = container.list_paths(request.query_params.get("path", ""))
        return {"value": [describe(container, container.path_of(blob), blob) for blob in blobs]}

    return list_described


def _show(describe: Callable[[ArtifactContainer, str, Blob], object]) -> Handler:
    """Say something of one artifact that exists."""
    return lambda container, request: describe(container, _path(request), container.find(_path(request)))


def _download(container: ArtifactContainer, request: Request) -> object:
    return send_blob(request, container.find(_path(request)))


async def _upload(container: ArtifactContainer, request: Request) -> object:
    path = _path(request)
    container.prepare()
    blob = await receive_blob(container.workspace, request, CONTAINER, container.blob(path))
    return container.describe(path, blob)


def _delete(container: ArtifactContainer, request: Request) -> object:
    delete_blob(container.workspace, container.find(_path(request)))
    return Response(None, 200)


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path:
        raise bad_request("The query has no `path`.")
    return path


# By method and by what follows the container's own path.
HANDLERS: dict[tuple[str, str], Handler] = {
    ("POST", "batch/metadata"): _create_batch,
    ("GET", ""): _list_all(ArtifactContainer.describe),
    ("GET", "path"): _list_all(ArtifactContainer.describe),
    ("GET", "prefix/contentinfo"): _list_all(ArtifactContainer.content),
    ("GET", "metadata"): _show(ArtifactContainer.describe),
    ("GET", "contentinfo"): _show(ArtifactContainer.content),
    ("GET", "artifacturi"): _show(lambda container, path, _blob: container.content(path)["contentUri"]),
    ("GET", "content"): _download,
    ("POST", "content"): _upload,
    ("DELETE", "metadata"): _delete,
}


async def _answer(container: ArtifactContainer, request: Request, operation: str) -> Response:
    handler = HANDLERS.get((request.method, operation.lower()))
    if handler is None:
        raise ServiceError(404, "NotFound", f"The artifact service has no `{operation[:80]}`.")
    return await answer_beside(container.workspace, request.method, partial(handler, container, request))
