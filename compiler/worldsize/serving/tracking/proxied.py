"""The artifacts of runs for plain MLflow, at ``mlflow-artifacts:/<run>/<path>`` as its own server has it."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from worldsize.serving.artifacts.folders import CONTAINER, prepare_run_folder, run_blob_path, unknown_artifact
from worldsize.serving.errors import answer
from worldsize.serving.storage.blobs import BlobProperties, delete_blob, put_blob, read_blob
from worldsize.serving.storage.download import read_chunks
from worldsize.serving.storage.files import blob_name
from worldsize.serving.storage.listing import list_blobs
from worldsize.serving.storage.uploads import received_body
from worldsize.serving.workspace import Workspace


async def answer_artifact(workspace: Workspace, request: Request, path: str) -> Response:
    """Answer a request for ``/mlflow-artifacts/artifacts/<run>/<path>``.

    Raises:
        ServiceError: 404 for an artifact that does not exist, 405 for another method.
    """
    if request.method == "GET" and not path:
        return await asyncio.to_thread(_list, workspace, request.query_params.get("path", ""))
    name = _blob(workspace, path)
    if request.method == "PUT":
        async with received_body(workspace.home, request) as body:
            properties = BlobProperties(content_md5=body.md5)
            await asyncio.to_thread(put_blob, workspace, CONTAINER, name, body.file, properties)
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


def _list(workspace: Workspace, path: str) -> Response:
    return answer({"files": list_folder(workspace, path)})


def list_folder(workspace: Workspace, path: str) -> list[dict[str, Any]]:
    """The files and folders directly below a folder, by their last names; no link leads outside the home.

    Raises:
        ServiceError: 400, for what is not ``<run>/<path>``, or leads outside.
    """
    prefix = _blob(workspace, path) + "/"
    files: list[dict[str, Any]] = []
    after = None
    while after != "":
        page = list_blobs(workspace.home, CONTAINER, prefix=prefix, delimiter="/", after=after or "")
        files += [{"path": each.removeprefix(prefix).strip("/"), "is_dir": True} for each in page.prefixes]
        files += [
            {"path": each.name.removeprefix(prefix), "is_dir": False, "file_size": each.size}
            for each in page.blobs
        ]
        after = page.after
    return files


def _blob(workspace: Workspace, path: str) -> str:
    """The blob of an artifact, whose run's folder exists then."""
    run, _, rest = blob_name(path).partition("/")
    prepare_run_folder(workspace.home, run)
    return run_blob_path(run, rest)
