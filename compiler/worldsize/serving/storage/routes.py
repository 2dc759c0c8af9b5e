"""The paths of the blob service: ``/blob/<host>/<container>/<blob>``."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.storage.blob_requests import BlobRequest, answer_blob
from worldsize.serving.storage.container_requests import answer_account, answer_container
from worldsize.serving.storage.uploads import prepare_folders
from worldsize.serving.workspace import Workspace

METHODS = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes; what a killed server left of uploads is removed."""
    prepare_folders(workspace.home)

    async def handle(request: Request) -> Response:
        container, _, path = request.path_params.get("rest", "").partition("/")
        if not container:
            return await answer_account(workspace, request)
        if not path:
            return await answer_container(workspace, request, container)
        return await answer_blob(BlobRequest(workspace, request, container, path))

    return [
        Route("/blob/{host}", handle, methods=METHODS),
        Route("/blob/{host}/{rest:path}", handle, methods=METHODS),
    ]
