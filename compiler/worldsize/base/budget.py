"""What one file may cost: processor time, and comparisons of mistyped words with known ones.

All that meets a file's text takes linear time, so that only what nobody thought of, or a file far beyond any
real one, reaches the bound. It is asked between rules and inside loops, because Python code in a thread can
only stop itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct, field

from worldsize.base import limits
from worldsize.base.problem import Problem
from worldsize.base.span import Span

OVER_BUDGET = "file-over-budget"


class OverBudgetError(Exception):
    """The file that is looked at has used up its time."""


class _Clock(Struct, eq=False):
    """The part of the time that this thread had a processor: a busy machine must not fail a file."""

    wall: float = field(default_factory=time.perf_counter)
    processor: float = field(default_factory=time.thread_time)

    def share(self) -> float:
        """Between 0 and 1; asked for seldom, since processor time is slow to read on some systems."""
        passed = time.perf_counter() - self.wall
        return min(1.0, max(0.001, (time.thread_time() - self.processor) / passed)) if passed > 0 else 1.0


class _Account(Struct, eq=False):
    """What is left to one file; ``deadline`` is the time at which to ask how much of it was spent here."""

    clock: _Clock
    comparisons: int
    spent: float = 0.0  # in all, while somebody else may have had the processor
    begun: float = 0.0
    deadline: float = 0.0

    def open(self) -> None:
        self.begun = time.perf_counter()
        self.deadline = self.begun + limits.SECONDS - self.spent

    def close(self) -> None:
        self.spent += time.perf_counter() - self.begun

    def check(self) -> None:
        now = time.perf_counter()
        if now <= self.deadline:
            return
        share = self.clock.share()
        left = limits.SECONDS - (self.spent + now - self.begun) * share
        if left <= 0:
            raise OverBudgetError
        self.deadline = now + left / share


_CURRENT: ContextVar[_Account | None] = ContextVar("account", default=None)


class Budgets(Struct, eq=False):
    """The accounts of the files of one check."""

    exhausted: set[str] = field(default_factory=set)  # files that were given up
    _accounts: dict[str, _Account] = field(default_factory=dict)
    _clock: _Clock = field(default_factory=_Clock)

    @contextmanager
    def charge(self, path: str) -> Iterator[None]:
        """Charge the work of a ``with`` block to a file.

        Raises:
            OverBudgetError: Inside of the block, where the file has used up its time.
        """
        if path not in self._accounts:
            self._accounts[path] = _Account(self._clock, limits.COMPARISONS)
        account = self._accounts[path]
        account.open()
        token = _CURRENT.set(account)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            account.close()

    def give_up(self, path: str) -> Problem:
        """The one problem of a file that costs too much."""
        self.exhausted.add(path)
        return over_budget(path)


def over_budget(path: str) -> Problem:
    """What is said of a file that costs too much."""
    message = f"checking this file takes more than {limits.SECONDS:g} s, so not all of its rules were run"
    help_ = "split the file, or shorten what it repeats"
    return Problem(OVER_BUDGET, Span(path, 1, 1, 1, 1), message, help_)


def check_time() -> None:
    """Stop where the file that is looked at has used up its time.

    Raises:
        OverBudgetError: It has.
    """
    account = _CURRENT.get()
    if account is not None:
        account.check()


def take_comparisons(count: int) -> bool:
    """Whether the file that is looked at may cause so many more comparisons of words."""
    account = _CURRENT.get()
    if account is None:
        return True
    account.comparisons -= count
    return account.comparisons >= 0
