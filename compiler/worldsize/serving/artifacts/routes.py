"""The paths of the artifact service, by origin and container or by run."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.artifacts.folders import CONTAINER, RUN_CONTAINER, RUN_ID, RUNS
from worldsize.serving.artifacts.requests import answer
from worldsize.serving.artifacts.service import ArtifactContainer
from worldsize.serving.errors import ServiceError
from worldsize.serving.front.guard import sign_path
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
        return await answer(container(found[1], found[2]), request, found[3] or "")

    async def by_run(request: Request) -> Response:
        run = request.path_params["run"]
        if RUN_ID.fullmatch(run) is None:
            raise _nothing()
        return await answer(
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
