"""The status that ranks exchange along with their losses, at no cost of its own.

All ranks must learn at the same step that one was asked to stop or cannot write its checkpoint. The mean of a
window of losses is exchanged anyway (:mod:`wstrain.tracking.step_recorder`); a few more numbers travel with
it, so every rank decides alike.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from wsshards.errors import UserError
from wstrain.checkpoint.save_policy import Pace


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The result of the last exchange, the same on every rank.

    Attributes:
        exchanges: number of exchanges so far.
        stop: some rank was asked to stop.
        failed: some rank could not write its checkpoint.
        writing: some rank is still writing its checkpoint.
        pace: how long steps and checkpoints take.
    """

    exchanges: int = 0
    stop: bool = False
    failed: bool = False
    writing: bool = False
    pace: Pace = field(default_factory=Pace)


@dataclass
class RankStatus:
    """This rank's own status, and the group's.

    Attributes:
        stop: this process was asked to stop.
        failed: it could not write its checkpoint.
        writing: it is still writing one.
        cost: seconds that training waited for the last checkpoint; 0 if this rank writes none.
        written: seconds until that checkpoint was on the disk.
        group: the result of the last exchange.
    """

    stop: bool = False
    failed: bool = False
    writing: bool = False
    cost: float = 0.0
    written: float = 0.0
    group: GroupStatus = field(default_factory=GroupStatus)
    _losses: list[float] = field(default_factory=lambda: [0.0, 0.0])  # their sum, and how many

    def numbers(self) -> list[float]:
        """Return the numbers to exchange; their means over ranks go to :meth:`receive`."""
        flags = (self.stop, self.failed, self.writing, self.cost > 0, self.written > 0)
        return [*map(float, flags), self.cost, self.written]

    def receive(self, means: Sequence[float], losses: Sequence[float], seconds: float) -> None:
        """Take in the result of an exchange.

        Args:
            means: of :meth:`numbers` over all ranks.
            losses: of the steps since the last exchange, averaged over ranks.
            seconds: of one step, averaged too.
        """
        stop, failed, writing, waited, wrote, cost, written = means
        pace = Pace(seconds, cost / waited if waited else 0.0, written / wrote if wrote else 0.0)
        self.group = GroupStatus(self.group.exchanges + 1, stop > 0, failed > 0, writing > 0, pace)
        self._losses[0] += sum(losses)
        self._losses[1] += len(losses)

    def take_mean_loss(self) -> float | None:
        """Return the mean loss of all steps since the last call; None if there were none."""
        total, count = self._losses
        self._losses = [0.0, 0.0]
        return total / count if count else None

    def stop_on_sigterm(self, then: Callable[[], None] = lambda: None) -> None:
        """Treat SIGTERM, which precedes an eviction or a cancelled job, as a request to stop.

        A sender that does not want to wait sends SIGKILL some seconds later.

        Args:
            then: called as well, between any two operations of the main thread.
        """

        def asked(_number: int, _frame: FrameType | None) -> None:
            self.stop = True
            then()

        with contextlib.suppress(ValueError):  # only the main thread can set a handler
            signal.signal(signal.SIGTERM, asked)


@contextmanager
def fail_together(gather: Callable[[Any], Sequence[Any]]) -> Iterator[None]:
    """Run code that may fail on one rank; if it does, all ranks raise the same error.

    Without it the others would wait in their next collective for a rank that has ended.

    Args:
        gather: returns the values of all ranks; called by all.
    """
    failure: UserError | None = None
    try:
        yield
    except UserError as error:
        failure = error
    for message in gather([failure.message, failure.help] if failure else None):
        if message is not None:
            raise UserError(*message)
