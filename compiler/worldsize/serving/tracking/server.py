"""Keeps MLflow's server running, on a socket that only this user's programs can open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from worldsize.serving.errors import ServiceError, log_error
from worldsize.serving.home import Home
from worldsize.serving.tracking.models import sync_models
from worldsize.serving.workspace import Workspace
from worldsize.tracking.database import DATABASE

LONGEST_SOCKET = 100  # bytes of a socket's path: 104 on macOS, 108 on Linux, with the final zero
QUICK_SECONDS, MAX_QUICK_ENDS = 20.0, 3  # a server that ends soon after its start, so often, stays down
STOP_SECONDS = 5.0
REQUEST_SECONDS = 300.0  # for an answer, MLflow's import included
AGAIN_SECONDS = 1.0  # after a start that the disk refused
READY_SECONDS = 0.05  # between two looks whether the database is there
_SERVERS: dict[Path, MlflowServer] = {}


class MlflowServer:
    """MLflow's server of one home, started again when it ends."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.path = folder / "mlflow.sock"
        self.fault: str | None = None
        self._home = home
        self._process: asyncio.subprocess.Process | None = None
        self.path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self._socket.listen(1024)
        self.session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(self.path)),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )

    async def keep_running(self) -> None:
        """Start the server whenever there is none."""
        quick_ends = 0
        while quick_ends < MAX_QUICK_ENDS:
            began = time.monotonic()
            try:
                await self._start()
            except OSError as error:  # a full disk, or no more files
                log_error("MLflow's server does not start", error)
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            assert self._process is not None
            status = await self._process.wait()
            quick_ends = quick_ends + 1 if time.monotonic() - began < QUICK_SECONDS else 0
        self.fault = f"MLflow's server does not start (exit status {status}): see `{self._log}`"
        self._socket.close()

    async def stop(self) -> None:
        """End the server."""
        await self.session.close()
        process = self._process
        if process is not None and process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except asyncio.TimeoutError:
                process.kill()
                await process.wait()
        self._socket.close()
        self.path.unlink(missing_ok=True)

    @property
    def _log(self) -> Path:
        return self._home.state / "mlflow.log"

    async def _start(self) -> None:
        descriptor = self._socket.fileno()
        with self._log.open("w", encoding="utf-8") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "worldsize.serving.tracking.program",
                str(self._home.root.absolute()),
                str(descriptor),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[descriptor],
                env=_environment(),
                start_new_session=True,  # a Ctrl-C is for the parent to handle
            )


def _environment() -> dict[str, str]:
    """The environment without what would point MLflow elsewhere, or at the workspace itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "_MLFLOW_"))}
    return {**kept, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"}


@contextlib.asynccontextmanager
async def run_mlflow(workspace: Workspace) -> AsyncIterator[None]:
    """Run MLflow's server; it is ready some seconds later, and requests wait for it."""
    folder = workspace.home.state.absolute()
    short = len(os.fsencode(folder / "mlflow.sock")) <= LONGEST_SOCKET
    place = folder if short else Path(tempfile.mkdtemp(prefix="worldsize-"))
    server = MlflowServer(workspace.home, place)
    _SERVERS[workspace.home.root] = server
    tasks = [asyncio.create_task(server.keep_running()), asyncio.create_task(sync_when_ready(workspace))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop()
        del _SERVERS[workspace.home.root]
        if not short:
            shutil.rmtree(place, ignore_errors=True)


async def sync_when_ready(workspace: Workspace) -> None:
    """Bring the registries of models to the same state, once MLflow has its database.

    Raises:
        ServiceError: 503, if MLflow's server does not run.
    """
    while not (workspace.home.root / DATABASE).exists():
        mlflow_session(workspace)
        await asyncio.sleep(READY_SECONDS)
    await asyncio.to_thread(sync_models, workspace)


def mlflow_session(workspace: Workspace) -> aiohttp.ClientSession:
    """Asks the workspace's MLflow server, at any host.

    Raises:
        ServiceError: 503, if the server does not run.
    """
    server = _SERVERS.get(workspace.home.root)
    if server is None or server.fault is not None:
        reason = "MLflow's server does not run" if server is None else str(server.fault)
        raise ServiceError(503, "ServiceUnavailable", reason)
    return server.session
