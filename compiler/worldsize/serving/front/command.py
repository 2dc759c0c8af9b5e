"""Runs the server, alone or around a command, until either ends or a signal asks for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from worldsize.serving.database import contained
from worldsize.serving.front.server import Server
from worldsize.serving.jobs import records
from worldsize.serving.jobs.queue import STARTED, cancel
from worldsize.serving.workspace import Workspace

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell reports them


class ServerError(Exception):
    """The server could not start."""


@dataclass(slots=True)
class Command:
    """A command, with the environment and the umask that it has without us."""

    words: Sequence[str]
    environment: Mapping[str, str]
    umask: int
    process: asyncio.subprocess.Process | None = field(default=None, init=False)

    async def run(self) -> int:
        """Run it to its end.

        Returns:
            Its exit status; 128 and the signal's number if one killed it.
        """
        try:
            self.process = await asyncio.create_subprocess_exec(
                *self.words, env=dict(self.environment), umask=self.umask
            )
        except FileNotFoundError:
            return _refuse(self.words[0], "there is no such command", NOT_FOUND)
        except OSError as error:
            return _refuse(self.words[0], (error.strerror or str(error)).lower(), NOT_EXECUTABLE)
        status = await self.process.wait()
        return status if status >= 0 else 128 - status

    def send(self, number: signal.Signals) -> None:
        """Pass on a signal, unless the terminal has sent it to the command too."""
        from_terminal = number in {signal.SIGINT, signal.SIGQUIT} and _is_foreground()
        if self.process is not None and self.process.returncode is None and not from_terminal:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


async def run_server(
    server: Server,
    command: Command | None,
    announce: Callable[[], None],
    finish: Callable[[], Awaitable[None]],
) -> int:
    """Run the server until it is asked to end, or until the command inside it has.

    Args:
        server: The server.
        command: What runs inside, if anything.
        announce: Called once the server accepts connections.
        finish: Awaited before the server stops.

    Returns:
        The exit status: the command's, or 0 for a server that was asked to end.

    Raises:
        ServerError: It did not start.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    handled = [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]  # nohup
    for number in handled:
        loop.add_signal_handler(number, _on_signal, stop, command, number)
    try:
        async with _serving(server):
            announce()
            status = 0
            if command is not None:
                status = await command.run()
            else:
                await stop.wait()
            await finish()
            return status
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _serving(server: Server) -> AsyncIterator[None]:
    task = asyncio.create_task(server.serve())
    ready = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not server.started:
            raise ServerError("the server did not start")
        yield
    finally:
        ready.cancel()
        server.should_exit = True
        await task


def _on_signal(stop: asyncio.Event, command: Command | None, number: signal.Signals) -> None:
    stop.set()
    if command is not None:
        command.send(number)


def _is_foreground() -> bool:
    """Whether the terminal sends its signals to this process group."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    return False


def _refuse(word: str, reason: str, status: int) -> int:
    sys.stderr.write(f"error: `{word}`: {reason}\n")
    return status


async def cancel_jobs(workspace: Workspace) -> int:
    """Cancel every job that has not ended, those that wait first, so that none of them starts meanwhile.

    The queue of the workspace still runs. Returns how many jobs there were.
    """
    waiting = records.list_in_state(workspace.database, records.WAITING)
    for job in waiting:
        await _cancel(workspace, job.name)
    active = records.list_in_state(workspace.database, STARTED)
    await asyncio.gather(*(_cancel(workspace, job.name) for job in active))
    return len(waiting) + len(active)


async def _cancel(workspace: Workspace, name: str) -> None:
    with contained("job", name):
        await cancel(workspace, name)
