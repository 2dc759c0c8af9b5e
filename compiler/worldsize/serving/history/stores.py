"""The workspace's own datastores as the data service describes them, for azureml-fsspec and mltable."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.errors import answer, not_found
from worldsize.serving.front.guard import sign_path
from worldsize.serving.workspace import CONTAINERS, Workspace

_PATH = (
    "/datastore/v1.0/subscriptions/{subscription}/{groups}/{group}/providers/{provider}/workspaces/{workspace}"
    "/datastores/{name}"
)


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The route of one datastore."""

    async def show(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in CONTAINERS:
            raise not_found(f"Datastore `{name}`")
        return answer(describe_store(workspace, name))

    return [Route(_PATH, show)]


def describe_store(workspace: Workspace, name: str) -> dict[str, object]:
    """A datastore, with a signature that opens it."""
    container = CONTAINERS[name]
    section = {
        "accountName": workspace.endpoints.account,
        "containerName": container,
        "endpoint": "core.windows.net",
        "protocol": "https",
        "credentialType": "Sas",
        "credential": sign_path(workspace, container),
        "isSas": True,
        "blobCacheTimeout": 0,
    }
    return {
        "name": name,
        "dataStoreType": "AzureBlob",
        "hasBeenValidated": True,
        "tags": {},
        "azureStorageSection": section,
    }
