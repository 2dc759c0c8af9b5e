"""The paths of the artifact service, by origin and container or by run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.artifacts.folders import CONTAINER, RUN_CONTAINER, RUN_ID, RUNS
from worldsize.serving.artifacts.service import ArtifactContainer, Document
from worldsize.serving.control.document import read_object
from worldsize.serving.errors import ServiceError, answer, bad_request
from worldsize.serving.front.guard import sign_path
from worldsize.serving.storage.blobs import Blob, BlobProperties, delete_blob, put_blob
from worldsize.serving.storage.download import send_blob
from worldsize.serving.storage.uploads import received_body
from worldsize.serving.workspace import Workspace

METHODS = ["GET", "POST", "DELETE"]
PREFIX = r"/subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+/workspaces/[^/]+/"
OF_ORIGIN = re.compile(PREFIX + r"artifacts/([^/]+)/([^/]+)(?:/(.*))?", re.IGNORECASE)
# Of run history, only what is below a run's artifacts; the words that name the segments come in any case.
OF_RUN = (
    "/history/v1.0/{subscriptions}/{subscription}/{groups}/{group}/{providers}/{provider}/{workspaces}/{workspace}"
    "/{experiments}/{experiment}/{runs}/{run}/artifacts"
)


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes."""

    def container(origin: str, name: str) -> ArtifactContainer:
        return ArtifactContainer(workspace, sign_path(workspace, CONTAINER), origin, name)

    async def by_origin(request: Request) -> Response:
        found = OF_ORIGIN.fullmatch("/" + request.path_params["rest"])
        if found is None:
            raise _nothing()
        return await answer_container(container(found[1], found[2]), request, found[3] or "")

    async def by_run(request: Request) -> Response:
        run = request.path_params["run"]
        if RUN_ID.fullmatch(run) is None:
            raise _nothing()
        return await answer_container(
            container(RUNS, RUN_CONTAINER + run), request, request.path_params.get("operation", "")
        )

    return [
        Route("/artifact/v1.0/{rest:path}", by_origin, methods=METHODS),
        Route("/artifact/v2.0/{rest:path}", by_origin, methods=METHODS),
        Route(OF_RUN, by_run, methods=METHODS),
        Route(OF_RUN + "/{operation:path}", by_run, methods=METHODS),
    ]


def _nothing() -> ServiceError:
    return ServiceError(404, "NotFound", "The path names no artifacts.")


Handler = Callable[[ArtifactContainer, Request], Awaitable[Response]]


def read_paths(document: Document) -> list[str]:
    """The paths of an ``ArtifactPathList``.

    Raises:
        ServiceError: 400, for a body that has none.
    """
    listed = document.get("paths")
    if not isinstance(listed, list):
        raise bad_request("`paths` must be a list.")
    paths = [each.get("path") if isinstance(each, dict) else None for each in listed]
    texts = [each for each in paths if isinstance(each, str) and each]
    if len(texts) != len(paths):
        raise bad_request("Each of `paths` must have a `path`.")
    return texts


async def create_batch(container: ArtifactContainer, request: Request) -> Response:
    """Name artifacts that are about to be uploaded."""
    paths = read_paths(await read_object(request))
    return await asyncio.to_thread(lambda: answer(container.create(paths)))


async def list_all(container: ArtifactContainer, request: Request) -> Response:
    """List the artifacts; ``path`` is what theirs begin with."""
    prefix = request.query_params.get("path", "")
    return await asyncio.to_thread(
        _list, container, prefix, lambda each: container.describe(container.path_of(each), each)
    )


async def list_contents(container: ArtifactContainer, request: Request) -> Response:
    """List where the artifacts are that begin with a path."""
    prefix = request.query_params.get("path", "")
    return await asyncio.to_thread(
        _list, container, prefix, lambda each: container.content(container.path_of(each))
    )


def _list(container: ArtifactContainer, prefix: str, describe: Callable[[Blob], Document]) -> Response:
    return answer({"value": [describe(each) for each in container.list_paths(prefix)]})


async def describe(container: ArtifactContainer, request: Request) -> Response:
    """Describe one artifact."""
    path = _path(request)
    return answer(container.describe(path, container.find(path)))


async def content_info(container: ArtifactContainer, request: Request) -> Response:
    """Say where one artifact is."""
    path = _path(request)
    container.find(path)
    return answer(container.content(path))


async def content_uri(container: ArtifactContainer, request: Request) -> Response:
    """The address of one artifact alone."""
    path = _path(request)
    container.find(path)
    return answer(container.content(path)["contentUri"])


async def download(container: ArtifactContainer, request: Request) -> Response:
    """Send one artifact."""
    return await send_blob(request, container.find(_path(request)))


async def upload(container: ArtifactContainer, request: Request) -> Response:
    """Receive one artifact."""
    path = _path(request)
    container.prepare()
    async with received_body(container.workspace.home, request) as body:
        properties = BlobProperties(content_md5=body.md5)
        blob = await asyncio.to_thread(
            put_blob, container.workspace, CONTAINER, container.blob(path), body.file, properties
        )
    return answer(container.describe(path, blob))


async def delete(container: ArtifactContainer, request: Request) -> Response:
    """Delete one artifact."""
    await asyncio.to_thread(delete_blob, container.workspace, container.find(_path(request)))
    return Response(None, 200)


def _path(request: Request) -> str:
    path = request.query_params.get("path", "")
    if not path:
        raise bad_request("The query has no `path`.")
    return path


# By method and by what follows the container's own path.
HANDLERS: dict[tuple[str, str], Handler] = {
    ("POST", "batch/metadata"): create_batch,
    ("GET", ""): list_all,
    ("GET", "path"): list_all,
    ("GET", "prefix/contentinfo"): list_contents,
    ("GET", "metadata"): describe,
    ("GET", "contentinfo"): content_info,
    ("GET", "artifacturi"): content_uri,
    ("GET", "content"): download,
    ("POST", "content"): upload,
    ("DELETE", "metadata"): delete,
}


async def answer_container(container: ArtifactContainer, request: Request, operation: str) -> Response:
    """Answer a request for a container.

    Raises:
        ServiceError: It cannot be answered.
    """
    handler = HANDLERS.get((request.method, operation.lower()))
    if handler is None:
        raise ServiceError(404, "NotFound", f"The artifact service has no `{operation[:80]}`.")
    return await handler(container, request)
