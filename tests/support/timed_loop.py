"""Runs `worldsize` and notes how long its event loop works at a time: `python timed_loop.py serve …`.

The file that the variable `TIMED_LOOP` names gets a line for each callback that takes more than 50 ms of the
loop's own processor time, which a machine with more to do does not lengthen.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

MOST_SECONDS = 0.05


def _describe(handle: asyncio.Handle) -> str:
    """Whose callback it is, and the address of the request that a task answers."""
    owner = getattr(handle._callback, "__self__", handle)  # type: ignore[attr-defined]
    frame = getattr(owner.get_coro(), "cr_frame", None) if isinstance(owner, asyncio.Task) else None
    scope = getattr(frame.f_locals.get("self"), "scope", None) if frame is not None else None
    return f"{scope.get('method')} {scope.get('path')}" if isinstance(scope, dict) else repr(owner)


def main() -> None:
    """Watch every callback, and run the command line."""
    notes = Path(os.environ.pop("TIMED_LOOP"))
    run = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        owner = _describe(handle)
        begin = time.thread_time()
        run(handle)
        took = time.thread_time() - begin
        if took > MOST_SECONDS:
            with notes.open("a", encoding="utf-8") as file:
                file.write(f"{took:.3f} s: {owner}"[:400].replace("\n", " ") + "\n")

    asyncio.events.Handle._run = timed  # type: ignore[method-assign]
    asyncio.tasks.Task = asyncio.tasks._PyTask  # type: ignore[attr-defined,misc] # says whose step a callback is
    from worldsize.cli.main import main as command

    sys.exit(command())


if __name__ == "__main__":
    main()
