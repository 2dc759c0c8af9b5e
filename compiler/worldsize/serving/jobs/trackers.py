"""Keeps the process that forks trackers, so that jobs do not wait for the import of MLflow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from worldsize.running.record.tracker_process import VARIABLES
from worldsize.serving.home import Home

STOP_SECONDS = 5.0


@asynccontextmanager
async def serve_trackers(home: Home) -> AsyncIterator[None]:
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
