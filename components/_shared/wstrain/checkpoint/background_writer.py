"""Writes checkpoints beside the training: one at a time, in a thread of low priority."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

NICENESS = 10  # of a core that both want, the training gets about ten times as much


class BackgroundWriter:
    """Runs one piece of work at a time; starting the next waits for the last.

    Args:
        threaded: False runs each piece at once, in the caller's thread.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._threaded = threaded
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.seconds = 0.0  # of the last piece

    @property
    def busy(self) -> bool:
        """Whether a piece of work is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Run ``work`` once the last piece has ended; what it raises is kept in ``failure``."""
        self.wait()
        if not self._threaded:
            self._do(work)
            return
        # A daemon, as a process that ends need not wait: an unfinished checkpoint has a temporary name.
        self._thread = threading.Thread(
            target=self._run_at_low_priority, args=(work,), name="checkpoint", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last piece of work has ended."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def take_failure(self) -> None:
        """Raise the kept failure, once."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _run_at_low_priority(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, AttributeError):  # on Linux each thread has its own niceness
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self._do(work)

    def _do(self, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        except Exception as error:  # the training's thread raises it
            self.failure = error
        self.seconds = time.perf_counter() - began
