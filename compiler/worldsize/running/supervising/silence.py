"""How long a helper process has said nothing, and what to do about it.

Every process of our own that works beside a run says something once a second. One that is stopped cannot;
it is continued, which does no harm to one that only is slow. One that stays silent is given up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

CONTINUE_SECONDS = 3.0
LOST_SECONDS = 30.0  # an import that loads large libraries from a slow disk says nothing for many seconds
LONGEST_LOOK_SECONDS = 1.0  # while the runner itself was stopped nobody listened


class Silence:
    """Counts the seconds in which one process said nothing though the runner listened.

    Args:
        clock: A monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._looked = clock()

    def end(self) -> None:
        """The process has said something."""
        self.seconds = 0.0

    def last(self, pid: int | None) -> bool:
        """Count the time since the last look; whether the process is to be given up.

        Args:
            pid: Is continued after a while, should it be stopped.
        """
        now = self._clock()
        self.seconds += min(now - self._looked, LONGEST_LOOK_SECONDS)
        self._looked = now
        if self.seconds >= CONTINUE_SECONDS and pid is not None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        return self.seconds >= LOST_SECONDS
