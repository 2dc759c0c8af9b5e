"""The queue: jobs wait their turn for the slots of this machine, the oldest first.

A slot is a GPU if there are any, else a core, as ``worldsize run`` counts. A job takes the slots of its
largest step. What runs is in the database and in the locks of the jobs' processes, so a server that starts
again continues where the one before was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from worldsize.running.launch.machine import Machine, detect_machine
from worldsize.running.record.tracking import VARIABLES
from worldsize.serving.database import contained
from worldsize.serving.errors import ServiceError, log_error, not_found
from worldsize.serving.front.environment import apply_variables, mlflow_server_variables
from worldsize.serving.home import Home
from worldsize.serving.jobs import records
from worldsize.serving.jobs.execution import end_job
from worldsize.serving.jobs.process import (
    SLOTS,
    WIDTH,
    find_process,
    prepare_process,
    read_numbers,
    signal_process,
    start_process,
)
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.workspace import Workspace

TICK_SECONDS = 0.1
KILL_SECONDS = 20.0  # from the request to cancel a job until it is killed
DIED = "The process of the job ended without a result: it was killed, or this machine was restarted."
STARTED = ("Preparing", "Running", "Finalizing", "CancelRequested")


@dataclass(slots=True)
class Active:
    """A job that holds slots; ``process`` is None for one that an earlier server started."""

    slots: tuple[int, ...]
    process: subprocess.Popen[bytes] | None
    cancel_seconds: float = 0.0  # since it was asked to end


@dataclass(slots=True)
class Queue:
    """Starts jobs when there is room, and looks after those that run."""

    workspace: Workspace
    machine: Machine
    active: dict[str, Active] = field(default_factory=dict)

    def adopt(self) -> None:
        """Take over what an earlier server started; what has died since is recorded."""
        database, home = self.workspace.database, self.workspace.home
        names = {name for (name,) in database.connection.execute("SELECT name FROM jobs")}
        for folder in home.jobs.iterdir():
            if folder.name not in names and find_process(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)  # of a submission that was killed
        for job in records.list_in_state(database, STARTED):
            with contained("job", job.name):
                self._adopt(job)

    def _adopt(self, job: JobRecord) -> None:
        database, folder = self.workspace.database, self.workspace.home.jobs / job.name
        if find_process(folder) is not None:
            self.active[job.name] = Active(read_numbers(folder / SLOTS), None)
        elif job.pid is not None or not records.claim(
            database, job.name, before=("Preparing",), after="Queued"
        ):  # else the server was killed before the process had begun
            self._settle(job.name)

    async def tick(self) -> None:
        """Record what has ended, and start what fits."""
        await asyncio.to_thread(self._tick)

    def _tick(self) -> None:
        for name, active in list(self.active.items()):
            with contained("job", name):
                self._look_after(name, active)
        # Each that is started takes a slot, so no more than these can start; all could be thousands.
        for name in records.list_names(self.workspace.database, "Queued", self.machine.slots + 1):
            fits = True
            with contained("job", name):
                fits = self._start(name)
            if not fits:
                break  # small jobs do not overtake a large one

    def _look_after(self, name: str, active: Active) -> None:
        if active.process is not None:
            lives = active.process.poll() is None
        else:
            lives = find_process(self.workspace.home.jobs / name) is not None
        if lives:
            self._press(name, active)
            return
        self._settle(name)  # first: what the disk refuses is tried again
        del self.active[name]

    def _press(self, name: str, active: Active) -> None:
        """Kill a job that was canceled and does not end."""
        job = records.get_job(self.workspace.database, name)
        if job is None or job.status != "CancelRequested":
            return
        active.cancel_seconds += TICK_SECONDS
        if active.cancel_seconds > KILL_SECONDS:
            signal_process(self.workspace.home.jobs / name, signal.SIGKILL)

    def _settle(self, name: str) -> None:
        """Record the end of a job whose process has ended without doing so."""
        job = records.get_job(self.workspace.database, name)
        if job is None or job.has_ended:
            return
        if job.status == "CancelRequested":
            end_job(self.workspace.database, job, "Canceled", None)
        else:
            end_job(self.workspace.database, job, "Failed", ("ServiceError", DIED))

    def _start(self, name: str) -> bool:
        """Start a job if it fits; False if it must wait."""
        folder = self.workspace.home.jobs / name
        (processes, *_) = read_numbers(folder / WIDTH) or (1,)
        width = max(1, min(self.machine.slots, processes))
        lent = {slot for active in self.active.values() for slot in active.slots}
        free = [slot for slot in range(self.machine.slots) if slot not in lent]
        adopted = sum(1 for active in self.active.values() if not active.slots)
        if len(free) - adopted < width:
            return False
        slots = tuple(free[:width])
        prepare_process(folder, slots)  # a job that the disk refuses waits until it can be written
        if not records.claim(self.workspace.database, name, before=("Queued",), after="Preparing"):
            return True  # it was canceled
        try:
            chosen = self.workspace.environment
            options = () if chosen is None else ("--environment", chosen)
            process = start_process(self.workspace.home, name, self._environment(slots), options)
        except OSError as error:
            if (job := records.get_job(self.workspace.database, name)) is not None:
                end_job(self.workspace.database, job, "Failed", ("ServiceError", str(error)))
            return True
        self.active[name] = Active(slots, process)
        return True

    def _environment(self, slots: tuple[int, ...]) -> dict[str, str]:
        """The variables of a job's process: those of a client, and the GPUs that it was lent."""
        environment = apply_variables(os.environ, self.workspace.client_variables)
        environment |= mlflow_server_variables(self.workspace)
        if self.machine.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self.machine.gpus[slot] for slot in slots)
        return environment


@asynccontextmanager
async def run_queue(workspace: Workspace) -> AsyncIterator[None]:
    """Run the queue of a workspace; jobs that run go on when it ends."""
    queue = Queue(workspace, await asyncio.to_thread(detect_machine))
    queue.adopt()
    async with _serve_trackers(workspace.home):
        task = asyncio.create_task(_repeat(queue))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _repeat(queue: Queue) -> None:
    said = ""
    while True:
        try:
            await queue.tick()
            said = ""
        except Exception as error:  # the queue outlives whatever one look meets, such as a full disk
            if said != (said := str(error)):
                log_error("the queue could not go on", error)
        await asyncio.sleep(TICK_SECONDS)


STOP_SECONDS = 5.0


@asynccontextmanager
async def _serve_trackers(home: Home) -> AsyncIterator[None]:
    """Run the server of trackers; without it each job starts a tracker of its own."""
    folder = tempfile.mkdtemp(prefix="worldsize-")  # the path of a socket has at most 103 bytes on macOS
    process = subprocess.Popen(
        [sys.executable, "-m", "worldsize.running.record.tracker_server", str(home.root), f"{folder}/socket"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **VARIABLES},
        start_new_session=True,  # a Ctrl-C is for the server to handle
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, STOP_SECONDS)
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)


WAIT_SECONDS = 10.0  # for a job to end, before its state is answered as it is
LOOK_SECONDS = 0.05


async def cancel(workspace: Workspace, name: str) -> JobRecord:
    """Cancel a job and wait a moment for its end; one that has ended stays as it is. The job afterwards.

    Raises:
        ServiceError: There is no such job, or it is part of another one.
    """
    if await asyncio.to_thread(_ask, workspace, name):
        await _stop(workspace, name)
    stored = await asyncio.to_thread(records.get_job, workspace.database, name)
    assert stored is not None
    return stored


def _ask(workspace: Workspace, name: str) -> bool:
    """Cancel a job that waits, or ask for the end of one that runs, which is then to be stopped."""
    job = records.get_job(workspace.database, name)
    if job is None:
        raise not_found(f"Job `{name}`")
    if job.parent is not None:
        message = f"`{name}` is part of job `{job.root}`: cancel that one."
        raise ServiceError(400, "UserError", message)
    if records.claim(workspace.database, name, before=records.WAITING, after="CancelRequested"):
        end_job(workspace.database, job, "Canceled", None)
        return False
    return records.set_status(workspace.database, name, "CancelRequested")


async def _stop(workspace: Workspace, name: str) -> None:
    folder = workspace.home.jobs / name
    signaled, deadline = False, time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        signaled = signaled or signal_process(folder, signal.SIGTERM)
        job = await asyncio.to_thread(records.get_job, workspace.database, name)
        if job is None or job.has_ended:
            return
        await asyncio.sleep(LOOK_SECONDS)
