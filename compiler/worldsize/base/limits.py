"""Limits of one check: sizes, the processor time of a file, and comparisons of mistyped words.

Each limit is far above any real job and keeps time and memory small. All work on a file's text takes linear
time, so that only an unforeseen case, or a file far beyond any real one, reaches the limit of time. The clock
is checked between rules and inside loops, because Python code in a thread can only stop itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from msgspec import Struct, field

from worldsize.base.problem import Problem
from worldsize.base.span import Span

SIZE = 16 * 1024 * 1024  # bytes
TEXT = 4 * 1024 * 1024  # bytes of a script, or of another text that a job names
RECORD = 128 * 1024 * 1024  # bytes of a file that a run or `compile` wrote, of ten thousand steps
DEPTH = 100  # nested collections, aliases expanded
NODES = 300_000  # values written in one file
ALIASED = 50_000  # values that aliases and merge keys repeat
SECONDS = 60.0  # of processor time for one file; a megabyte takes about one
COMPARISONS = 100_000  # of mistyped words in one file with known words; later ones get no suggestion
SAME = 200  # findings of one rule in one file that are listed; the rest are counted
LISTED = 1_000  # findings in one file that are listed, the most severe first
REPORTED = 20_000  # findings of one check that are listed, the most severe first
FOUND = 1_000  # findings that one function may report about one file


OVER_BUDGET = "file-over-budget"


class OverBudgetError(Exception):
    """The file that is being checked has used up its time."""


class _Clock(Struct, eq=False):
    """Measures which share of the time this thread had a processor: a busy machine must not fail a file."""

    wall: float = field(default_factory=time.perf_counter)
    processor: float = field(default_factory=time.thread_time)

    def share(self) -> float:
        """The share, between 0 and 1; called rarely, since processor time is slow to read on some systems."""
        passed = time.perf_counter() - self.wall
        return min(1.0, max(0.001, (time.thread_time() - self.processor) / passed)) if passed > 0 else 1.0


class _Account(Struct, eq=False):
    """The time left for one file; at ``deadline`` the processor time is read and the deadline moved."""

    clock: _Clock
    comparisons: int
    spent: float = 0.0  # wall time, in which other programs may have had the processor
    begun: float = 0.0
    deadline: float = 0.0

    def open(self) -> None:
        self.begun = time.perf_counter()
        self.deadline = self.begun + SECONDS - self.spent

    def close(self) -> None:
        self.spent += time.perf_counter() - self.begun

    def check(self) -> None:
        now = time.perf_counter()
        if now <= self.deadline:
            return
        share = self.clock.share()
        left = SECONDS - (self.spent + now - self.begun) * share
        if left <= 0:
            raise OverBudgetError
        self.deadline = now + left / share


_CURRENT: ContextVar[_Account | None] = ContextVar("account", default=None)


class Budgets(Struct, eq=False):
    """The accounts of the files of one check."""

    exhausted: set[str] = field(default_factory=set)  # files that exceeded their budget
    _accounts: dict[str, _Account] = field(default_factory=dict)
    _clock: _Clock = field(default_factory=_Clock)

    @contextmanager
    def charge(self, path: str) -> Iterator[None]:
        """Charge the work of a ``with`` block to a file.

        Raises:
            OverBudgetError: Inside of the block, where the file has used up its time.
        """
        if path not in self._accounts:
            self._accounts[path] = _Account(self._clock, COMPARISONS)
        account = self._accounts[path]
        account.open()
        token = _CURRENT.set(account)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            account.close()

    def give_up(self, path: str) -> Problem:
        """Mark a file as exhausted and return the one problem that is reported for it."""
        self.exhausted.add(path)
        return report_over_budget(path)


def report_over_budget(path: str) -> Problem:
    """The problem of a file that takes too much time."""
    message = f"checking this file takes more than {SECONDS:g} s, so not all of its rules were run"
    help_ = "split the file, or shorten what it repeats"
    return Problem(OVER_BUDGET, Span(path, 1, 1, 1, 1), message, help_)


def check_time() -> None:
    """Raise :class:`OverBudgetError` if the file that is being checked has used up its time."""
    account = _CURRENT.get()
    if account is not None:
        account.check()


def take_comparisons(count: int) -> bool:
    """Deduct comparisons from the current file's budget and say whether it allowed them."""
    account = _CURRENT.get()
    if account is None:
        return True
    account.comparisons -= count
    return account.comparisons >= 0
