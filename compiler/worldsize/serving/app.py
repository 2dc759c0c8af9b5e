"""The application: every part's routes, the errors of all of them, and what runs beside them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from worldsize.serving.errors import ServiceError
from worldsize.serving.front.crashes import CrashGuard
from worldsize.serving.front.guard import Guard
from worldsize.serving.workspace import Workspace

# In the order in which their routes are tried.
PARTS = (
    "worldsize.serving.identity.routes",
    "worldsize.serving.telemetry",
    "worldsize.serving.control.routes",
    "worldsize.serving.history.routes",
    "worldsize.serving.history.stores",
    "worldsize.serving.artifacts.routes",
    "worldsize.serving.tracking.routes",
    "worldsize.serving.storage.routes",
    "worldsize.serving.page.routes",  # answers for the rest
)
# In the order in which they start: the queue's jobs write to MLflow, schedules fill the queue.
SERVICES = (
    ("worldsize.serving.tracking.server", "run_mlflow"),
    ("worldsize.serving.jobs.queue", "run_queue"),
    ("worldsize.serving.schedules.fire", "run_schedules"),
)
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

Service = Callable[[Workspace], AbstractAsyncContextManager[None]]


def make_app(workspace: Workspace, port: int) -> ASGIApp:
    """The application of one workspace, guarded.

    Args:
        workspace: What every part works on.
        port: The port of the listener, which direct requests have to name.
    """
    modules = [importlib.import_module(part) for part in PARTS]
    routes: list[BaseRoute] = [Route("/unknown/{host}/{rest:path}", _refuse_host, methods=METHODS)]
    routes += [route for module in modules for route in module.routes(workspace)]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(CrashGuard)],
        lifespan=lambda _app: _run_services(workspace),
        exception_handlers={
            ServiceError: _answer_error,
            HTTPException: _answer_http,
            ClientDisconnect: _answer_nobody,
        },
    )
    return Guard(app, workspace, port)


@contextlib.asynccontextmanager
async def _run_services(workspace: Workspace) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for module, function in SERVICES:
            service: Service = getattr(importlib.import_module(module), function)
            await stack.enter_async_context(service(workspace))
        yield


async def _refuse_host(request: Request) -> Response:
    host = request.path_params["host"]
    message = f"`worldsize serve` does not offer `{host}`, and lets no request through to Azure."
    return ServiceError(404, "ResourceNotFound", message).response()


async def _answer_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return error.response()


async def _answer_http(request: Request, error: Exception) -> Response:
    """Starlette's own errors: no such path, another method, a body that cannot be read."""
    assert isinstance(error, HTTPException)
    codes = {404: "ResourceNotFound", 405: "MethodNotAllowed"}
    message = f"{request.method} {request.url.path}: {error.detail}"
    return ServiceError(error.status_code, codes.get(error.status_code, "BadRequest"), message).response()


async def _answer_nobody(_request: Request, _error: Exception) -> Response:
    """The client has gone before its request was complete."""
    return Response(status_code=400)
