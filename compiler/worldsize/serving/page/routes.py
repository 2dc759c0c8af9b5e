"""The page's routes: its own addresses and no others, and the files that it offers.

NiceGUI takes most of a second to import, so it is imported at the first request for the page.
"""

from __future__ import annotations

import asyncio
import importlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worldsize.serving.page.downloads import send_file
from worldsize.serving.workspace import Workspace

PAGES = ("jobs", "compare", "models", "data", "components", "environments", "compute", "schedules")
FRAMEWORK = ("_nicegui", "_nicegui_ws")

# Nothing of another host is loaded, and no other page can show this one. NiceGUI's templates are made with
# eval(), and its own scripts and styles are inline.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; object-src 'none';"
    " base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of the page."""
    page = LazyPage(workspace)

    async def files(request: Request) -> Response:
        return await send_file(workspace, request)

    return [
        Route("/files/{kind}/{name}/{path:path}", files),
        Route("/", page),
        Route("/favicon.ico", page),
        *(Route(f"/{name}", page) for name in PAGES),
        *(Route(f"/{name}/{{rest:path}}", page) for name in (*PAGES, *FRAMEWORK)),
        *(WebSocketRoute(f"/{name}/{{rest:path}}", page) for name in FRAMEWORK),
    ]


class LazyPage:
    """The page as an application of its own, which is made when the first request comes."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._making: asyncio.Task[ASGIApp] | None = None
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._making is None or _has_failed(self._making):
            self._making = asyncio.create_task(self._make())  # again, since a full disk may have room now
        application = await asyncio.shield(self._making)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *added]}
            await send(message)

        await application(scope, receive, send_with_headers)

    async def _make(self) -> ASGIApp:
        module = await asyncio.to_thread(importlib.import_module, "worldsize.serving.page.application")
        await asyncio.to_thread(module.import_pages, self._workspace)
        application, lifespan = module.make_application(self._workspace)
        started = asyncio.Event()

        async def serve() -> None:
            async with lifespan:
                started.set()
                await asyncio.Event().wait()  # until the loop ends

        self._serving = asyncio.create_task(serve())
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait([self._serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()  # raises why it did not start
        return application  # type: ignore[no-any-return]


def _has_failed(task: asyncio.Task[ASGIApp]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
