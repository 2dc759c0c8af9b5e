"""Runs `worldsize` and notes how long its event loop works at a time: `python timed_loop.py serve …`.

The file that the variable `TIMED_LOOP` names gets a line for each callback that takes more than 50 ms of the
loop's own processor time, which a machine with more to do does not lengthen.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

MOST_SECONDS = 0.05


def _find_scope(owner: object) -> dict[str, Any] | None:
    """The request that a task answers; when the task has ended, its frame is gone."""
    frame = getattr(owner.get_coro(), "cr_frame", None) if isinstance(owner, asyncio.tasks.Task) else None
    scope = getattr(frame.f_locals.get("self"), "scope", None) if frame is not None else None
    return scope if isinstance(scope, dict) else None


def main() -> None:
    """Watch every callback, and run the command line."""
    notes = Path(os.environ.pop("TIMED_LOOP"))
    run = asyncio.events.Handle._run
    collected = [0.0]  # seconds of the collector, which works for whoever allocates

    def time_collector(phase: str, _facts: object) -> None:
        collected[0] += time.thread_time() * (1 if phase == "stop" else -1)

    def timed(handle: asyncio.Handle) -> None:
        owner = getattr(handle._callback, "__self__", handle)  # type: ignore[attr-defined]
        scope = _find_scope(owner)
        begin, collecting = time.thread_time(), collected[0]
        run(handle)
        took = time.thread_time() - begin
        if took > MOST_SECONDS:
            # A `repr` of others can change them: aiohttp's answers keep the headers that they had then.
            what = repr(owner) if isinstance(owner, asyncio.tasks.Task) else type(owner).__qualname__
            name = f"{scope.get('method')} {scope.get('path')}" if scope else what
            with notes.open("a", encoding="utf-8") as file:
                line = f"{took:.3f} s, the collector {collected[0] - collecting:.3f} s of it: {name}"
                file.write(line[:400].replace("\n", " ") + "\n")

    gc.callbacks.append(time_collector)
    asyncio.events.Handle._run = timed  # type: ignore[method-assign]
    asyncio.tasks.Task = asyncio.tasks._PyTask  # type: ignore[attr-defined,misc] # says whose step a callback is
    from worldsize.cli.main import main as command

    sys.exit(command())


if __name__ == "__main__":
    main()
