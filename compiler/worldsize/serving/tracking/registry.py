"""Registers model versions in MLflow's registry whose files are in the home.

MLflow's server takes a local source only from within the artifacts of a run that the request names. So the
version is created with the source that the client named, and its row then gets the file that it means, which
jobs load without a server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from worldsize.serving.tracking.uris import ArtifactUris
from worldsize.serving.workspace import Workspace
from worldsize.tracking.versions import set_source

if TYPE_CHECKING:
    from worldsize.serving.tracking.gateway import MlflowCall

Send = Callable[[Workspace, "MlflowCall"], Awaitable[tuple[int, str, bytes]]]


async def place_version(workspace: Workspace, uris: ArtifactUris, call: MlflowCall, send: Send) -> Response:
    """Create a version as a client asks for it."""
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
