"""The paths of MLflow: ``/mlflow/v2.0/<workspace>/api/…``, and ``/mlflow/v2.0/api/…`` for plain MLflow."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.errors import ServiceError
from worldsize.serving.tracking.gateway import forward
from worldsize.serving.tracking.proxied import answer_artifact
from worldsize.serving.tracking.uris import ArtifactUris
from worldsize.serving.workspace import Workspace

METHODS = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]
SCOPE = re.compile(
    r"(subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+/workspaces/[^/]+)/(api/.*)", re.IGNORECASE
)
ARTIFACTS = re.compile(r"api/2\.0/mlflow-artifacts/artifacts(?:/(.*))?", re.DOTALL)


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes."""

    async def answer(request: Request) -> Response:
        rest = request.path_params["rest"]
        if rest.startswith("api/"):  # plain MLflow, which names no workspace
            artifact = ARTIFACTS.fullmatch(rest)
            if artifact is not None:
                return await answer_artifact(workspace, request, artifact[1] or "")
            return await forward(workspace, request, rest, ArtifactUris(workspace.home, None))
        found = SCOPE.fullmatch(rest)
        if found is None:
            raise ServiceError(404, "NotFound", "The path names no workspace, or nothing of MLflow.")
        host = urlsplit(workspace.endpoints.api).netloc
        base = f"azureml://{host}/artifact/v2.0/{found[1]}"
        return await forward(workspace, request, found[2], ArtifactUris(workspace.home, base))

    return [
        Route("/mlflow/v1.0/{rest:path}", answer, methods=METHODS),
        Route("/mlflow/v2.0/{rest:path}", answer, methods=METHODS),
    ]
