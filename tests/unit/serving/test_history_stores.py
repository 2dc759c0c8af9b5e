"""The datastores as the network stack of azureml-fsspec and mltable reads them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

from serving import make_workspace
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from worldsize.serving.errors import ServiceError
from worldsize.serving.front.guard import verify_path
from worldsize.serving.history import routes


def test_a_datastore_has_a_signature_that_opens_its_container(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    handlers = {ServiceError: lambda _request, error: error.response()}
    client = TestClient(Starlette(routes=routes(workspace), exception_handlers=handlers))  # type: ignore[arg-type]
    stores = f"/datastore/v1.0{workspace.scope.id}/datastores"
    found = client.get(f"{stores}/workspaceblobstore").json()
    section = found["azureStorageSection"]
    assert (found["dataStoreType"], section["containerName"]) == ("AzureBlob", "azureml-blobstore")
    query = QueryParams(parse_qsl(section["credential"]))
    assert verify_path(workspace, "azureml-blobstore", query)
    assert not verify_path(workspace, "azureml", query)
    assert client.get(f"{stores}/other").status_code == 404
