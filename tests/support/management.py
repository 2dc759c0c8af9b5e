"""The management API of a workspace in a folder, without a server around it."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.testclient import TestClient

from worldsize.serving.control.call import Call, Handlers, answer_beside, find_handler
from worldsize.serving.control.routes import routes
from worldsize.serving.database import Database
from worldsize.serving.errors import ServiceError
from worldsize.serving.home import Home
from worldsize.serving.workspace import Endpoints, Workspace

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices"
ROOT = f"{GROUP}/workspaces/w"


class Management:
    """A client of the routes; paths that do not begin with a slash are below the workspace."""

    def __init__(self, folder: Path) -> None:
        home = Home(folder / ".worldsize")
        home.make()
        self.workspace = Workspace(home, Database(home.database), Endpoints("http://127.0.0.1:1"), folder)
        handlers = {ServiceError: lambda _request, error: error.response()}
        app = Starlette(routes=routes(self.workspace), exception_handlers=handlers)  # type: ignore[arg-type]
        self._client = TestClient(app, base_url="https://management.azure.com")

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """The answer to a request."""
        if body is not None:
            more["json"] = body
        full = path if path.startswith("/") else f"{ROOT}/{path}".rstrip("/")
        return self._client.request(method, full, follow_redirects=False, **more)

    def get(self, path: str, status: int = 200) -> Any:
        """The document at a path."""
        return self._read(self.ask("GET", path), status)

    def put(self, path: str, properties: Any, status: int | None = None) -> Any:
        """The document that a PUT of ``properties`` answers."""
        return self._read(self.ask("PUT", path, {"properties": properties}), status)

    @staticmethod
    def _read(answer: httpx.Response, status: int | None) -> Any:
        wanted = (200, 201) if status is None else (status,)
        assert answer.status_code in wanted, answer.text
        return answer.json()


def ask_handlers(
    handlers: Handlers, workspace: Workspace, method: str, kind: str, name: str | None, **rest: Any
) -> tuple[int, Any]:
    """The status and the document that the handlers of one kind answer, without a route."""
    base = "https://management.azure.com"
    call = Call(
        workspace.scope, "workspaces", kind, name, workspace=workspace, base=base, method=method, **rest
    )

    async def answer() -> Any:
        try:
            handle = partial(find_handler(call, handlers), call)
            return await answer_beside(call.workspace, call.method, handle)
        except ServiceError as error:
            return error.response()

    response = asyncio.run(answer())
    return response.status_code, json.loads(response.body) if response.body else None
