"""Cancels jobs: those that wait at once, those that run by asking their process to end."""

from __future__ import annotations

import asyncio
import signal
import time

from worldsize.serving.errors import ServiceError, not_found
from worldsize.serving.jobs import records
from worldsize.serving.jobs.execution import end_job
from worldsize.serving.jobs.process import signal_process
from worldsize.serving.jobs.records import JobRecord
from worldsize.serving.workspace import Workspace

WAIT_SECONDS = 10.0  # for a job to end, before its state is answered as it is
LOOK_SECONDS = 0.05


async def cancel(workspace: Workspace, name: str) -> JobRecord:
    """Cancel a job and wait a moment for its end; one that has ended stays as it is.

    Args:
        workspace: The workspace.
        name: The job, which is not part of another one.

    Returns:
        The job afterwards.

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
    asked, deadline = False, time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        asked = asked or signal_process(folder, signal.SIGTERM)
        job = await asyncio.to_thread(records.get_job, workspace.database, name)
        if job is None or job.has_ended:
            return
        await asyncio.sleep(LOOK_SECONDS)
