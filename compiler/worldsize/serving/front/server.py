"""The server: one home, one port, every part's routes with their errors, and what runs as long as it does."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from logging.handlers import RotatingFileHandler
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worldsize.base.whole_file import remove_parts
from worldsize.running.record.json_files import read_json, write_json
from worldsize.serving.database import Database
from worldsize.serving.errors import ServiceError, explain_refused, log_error
from worldsize.serving.front.certificates import Authority
from worldsize.serving.front.environment import client_variables, make_endpoints
from worldsize.serving.front.guard import Guard
from worldsize.serving.front.listener import Listener, Tunnel, Upstream, bind
from worldsize.serving.front.peers import Peer, watch_peers
from worldsize.serving.home import Home, HomeInUseError
from worldsize.serving.workspace import Workspace
from worldsize.tracking.database import DATABASE, check_schema

LOG_BYTES = 1 << 20
SHUTDOWN_SECONDS = 3
LONGEST_STEP = 0.05  # seconds that the event loop may do one thing
SWITCH_SECONDS = 0.001  # after which a thread that computes lets the event loop go on; Python's own are 0.005
MALLOC = ((-8, 2), (-3, 256 << 10))  # mallopt(3): M_ARENA_MAX, and M_MMAP_THRESHOLD in bytes
THREADS = 8  # in which requests are answered, whatever the number of cores
KEEP_ALIVE_SECONDS = 120  # clients keep connections for minutes, and one that closes may lose a request


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for."""

    home: Path
    project: Path
    port: int | None  # None: the one that the home had before, or one that is free
    proxy: bool
    environment: Mapping[str, str]  # the user's own, before the client's variables
    interpreter: str | None = None  # of the jobs' steps, as `worldsize run --environment` has it


@dataclass(frozen=True, slots=True)
class Opened:
    """A workspace whose port listens already: connections wait until the server accepts them."""

    workspace: Workspace
    authority: Authority
    listening: socket.socket
    settings: Settings

    @property
    def port(self) -> int:
        """The port of the listener."""
        port: int = self.listening.getsockname()[1]
        return port

    @property
    def page(self) -> str:
        """The address that opens the page, with its token."""
        return f"{self.workspace.endpoints.page}/?token={self.workspace.token}"


@contextlib.contextmanager
def open_workspace(settings: Settings) -> Iterator[Opened]:
    """Hold a home and its port until the block ends.

    Raises:
        HomeInUseError: Another server holds the home.
        NotAsWrittenError: A secret of the home is not what was written.
        OSError: The port is taken, or the home cannot be written.
        SchemaError: The database of another version of MLflow is in the home.
    """
    home = Home(settings.home.absolute())
    home.make()
    with home.lock(), _bind(home, settings.port) as listening:
        check_schema(home.root / DATABASE)
        port = listening.getsockname()[1]
        workspace, authority = _make_workspace(home, settings, port, proxy=settings.proxy)
        remove_parts(home.state)
        record = {"pid": os.getpid(), "port": port, "proxy": settings.proxy}
        write_json(home.state / "server.json", record, flush=True)
        try:
            yield Opened(workspace, authority, listening, settings)
        finally:
            workspace.database.close()


def _make_workspace(home: Home, settings: Settings, port: int, *, proxy: bool) -> tuple[Workspace, Authority]:
    """The workspace of a home that a server at a port serves, and who signs its certificates."""
    endpoints = make_endpoints(f"http://127.0.0.1:{port}", port, proxy=proxy)
    workspace = Workspace(
        home, Database(home.database), endpoints, settings.project, environment=settings.interpreter
    )
    authority = Authority(home)
    bundle = authority.write_bundle(settings.environment)
    workspace.client_variables = client_variables(workspace, port, bundle, settings.environment, proxy=proxy)
    return workspace, authority


def describe_client(settings: Settings) -> tuple[Mapping[str, str | None], bool]:
    """The variables of a client for a server that runs, or for the next one.

    Returns:
        The variables, and whether the server runs.

    Raises:
        HomeInUseError: A server is just starting, or ending.
        NotAsWrittenError: A secret of the home is not what was written.
        OSError: The home cannot be written.
        SchemaError: The database of another version of MLflow is in the home.
    """
    home = Home(settings.home.absolute())
    try:
        with open_workspace(settings) as opened:  # holds the home while it makes what is missing
            return opened.workspace.client_variables, False
    except HomeInUseError:
        record = read_record(home)
        port, proxy = record.get("port"), bool(record.get("proxy"))
        if not isinstance(port, int):
            raise
    return _make_workspace(home, settings, port, proxy=proxy)[0].client_variables, True


def read_record(home: Home) -> dict[str, object]:
    """What the last server of a home wrote about itself: ``pid``, ``port``, ``proxy``; empty if none did."""
    return read_json(home.state / "server.json") or {}


def _bind(home: Home, wanted: int | None) -> socket.socket:
    """The wanted port; else the one of before, so that addresses stay; else a free one."""
    if wanted is not None:
        return bind(wanted)
    before = read_record(home).get("port")
    if isinstance(before, int) and 0 < before < 65536:
        with contextlib.suppress(OSError):
            return bind(before)
    return bind(0)


class Server(uvicorn.Server):
    """Uvicorn's server behind our listener: it stops when ``should_exit`` is set, and handles no signals."""

    def __init__(self, config: uvicorn.Config, opened: Opened, upstream: Upstream | None) -> None:
        super().__init__(config)
        self._opened = opened
        self._upstream = upstream
        self._listener: Listener | None = None
        self.ready = asyncio.Event()

    async def startup(self, *_: object, **__: object) -> None:
        """Start what runs beside the application, then accept connections."""
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # the collector need not look through what is imported, on the event loop's time
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, "serve"))
        loop.slow_callback_duration = LONGEST_STEP  # PYTHONASYNCIODEBUG=1 logs which takes longer
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
        else:
            self.servers = []
            workspace, authority = self._opened.workspace, self._opened.authority
            tunnel = Tunnel(workspace, authority, self._make_protocol, self._upstream)
            self._listener = Listener(self._opened.listening, tunnel)
            self.started = True
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, then let the application finish."""
        if self._listener is not None:
            await self._listener.close()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to who runs the server."""
        yield

    @cached_property
    def _protocol(self) -> Callable[..., asyncio.Protocol]:
        return watch_peers(self.config.http_protocol_class)

    def _make_protocol(self, host: str | None, peer: Peer) -> asyncio.Protocol:
        state = {**self.lifespan.state, "proxy_host": host, "peer": peer}
        return self._protocol(config=self.config, server_state=self.server_state, app_state=state)


def make_server(opened: Opened, upstream: Upstream | None) -> Server:
    """The server of an opened workspace; ``upstream`` is the proxy that reaches hosts other than Azure's."""
    _log_to_file(opened.workspace.home.state / "server.log")
    _return_memory()
    config = uvicorn.Config(
        make_app(opened.workspace, opened.port),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return Server(config, opened, upstream)


def _return_memory() -> None:
    """Let glibc give memory back: each thread would keep as much as the largest body took."""
    if (setting := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:  # other C libraries have none
        for parameter, value in MALLOC:
            setting(parameter, value)


def _log_to_file(path: Path) -> None:
    """Send warnings and errors of every library to a file: the terminal is the command's."""
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.raiseExceptions = False  # a full disk must not fill the terminal with tracebacks
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)


# In the order in which their routes are tried.
PARTS = (
    "worldsize.serving.identity",
    "worldsize.serving.control.routes",
    "worldsize.serving.history",
    "worldsize.serving.artifacts",
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
    """The application of one workspace, guarded: direct requests have to name the port of the listener."""
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


class CrashGuard:
    """Turns exceptions into answers: the traceback goes to the log, the client learns where that is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            if begun:  # half an answer: only a closed connection tells that the rest is missing
                raise
            log_error(f"{scope['method']} {scope['path']} failed", error)
            message = f"internal error ({type(error).__name__}): `serve/server.log` in the home has more"
            answer = ServiceError(500, "InternalServerError", message)
            if (reason := explain_refused(error)) is not None:
                message = f"nothing was done, because the disk of the workspace refused it: {reason}"
                answer = ServiceError(507, "InsufficientStorage", message)
            await answer.response()(scope, receive, send)
