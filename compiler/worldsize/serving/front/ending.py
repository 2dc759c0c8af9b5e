"""What becomes of the jobs when a server ends as it was asked to."""

from __future__ import annotations

import asyncio

from worldsize.serving.database import contained
from worldsize.serving.jobs import records
from worldsize.serving.jobs.cancel import cancel
from worldsize.serving.jobs.queue import STARTED
from worldsize.serving.workspace import Workspace


async def cancel_jobs(workspace: Workspace) -> int:
    """Cancel every job that has not ended, those that wait first, so that none of them starts meanwhile.

    Args:
        workspace: The workspace, whose queue still runs.

    Returns:
        How many there were.
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
