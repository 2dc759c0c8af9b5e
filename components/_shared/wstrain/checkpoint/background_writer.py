"""Work beside the training: one piece at a time, in a thread that the training has priority over."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

NICENESS = 10  # the training gets about ten times as much of a core that both want


class BackgroundWriter:
    """Does pieces of work one after the other; whoever brings the next waits for the last.

    Args:
        threaded: False does each at once.
    """

    def __init__(self, *, threaded: bool = True) -> None:
        self._threaded = threaded
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None
        self.seconds = 0.0  # that the last piece took

    @property
    def busy(self) -> bool:
        """Whether a piece is still being worked on."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Begin with ``work`` once the last piece is done; what it raises is kept in ``failure``."""
        self.wait()
        if not self._threaded:
            self._do(work)
            return
        # A process that ends does not wait for it: what is half-written has another name.
        self._thread = threading.Thread(target=self._beside, args=(work,), name="checkpoint", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is left to do."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def take_failure(self) -> None:
        """Raise what the work raised, once."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _beside(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, AttributeError):  # on Linux each thread has a niceness of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self._do(work)

    def _do(self, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        except Exception as error:  # whatever it is, the training's own thread must hear of it
            self.failure = error
        self.seconds = time.perf_counter() - began
