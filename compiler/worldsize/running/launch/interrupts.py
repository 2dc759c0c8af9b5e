"""Ctrl-C and similar signals as events: noted at once, handled between two turns of the loop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The signals received so far, and a file descriptor that wakes a selector when one arrives."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)

    def fileno(self) -> int:
        """What a selector waits on."""
        return self._reading

    def happened(self) -> bool:
        """Whether there was a signal."""
        return bool(self.received)

    def clear(self) -> None:
        """Forget the wake-up; :attr:`received` stays."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reading, 1 << 10)

    def note(self, number: int, _frame: object = None) -> None:
        """Remember a signal and wake whoever waits."""
        self.received.append(number)
        os.write(self._writing, b"!")

    def close(self) -> None:
        """Close both ends."""
        os.close(self._reading)
        os.close(self._writing)


@contextlib.contextmanager
def catch_signals() -> Iterator[Interrupts]:
    """Catch signals for as long as the context lasts; Python allows it in the main thread only."""
    interrupts = Interrupts()
    previous = {}
    if threading.current_thread() is threading.main_thread():
        previous = {number: signal.signal(number, interrupts.note) for number in SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        interrupts.close()
