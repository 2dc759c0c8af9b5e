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


class _Account(Struct, eq=False):
    """The processor time of this thread that is left for one file: a busy machine must not fail it.

    It is read when the ``deadline`` has passed, because reading it is slow on some systems.
    """

    comparisons: int
    left: float = field(default_factory=lambda: SECONDS)
    begun: float = 0.0
    deadline: float = 0.0  # by the clock on the wall

    def open(self) -> None:
        self.begun = time.thread_time()
        self.deadline = time.perf_counter() + self.left

    def close(self) -> None:
        self.left -= time.thread_time() - self.begun

    def check(self) -> None:
        if time.perf_counter() <= self.deadline:
            return
        self.close()
        self.open()
        if self.left <= 0:
            raise OverBudgetError


_CURRENT: ContextVar[_Account | None] = ContextVar("account", default=None)


class Budgets(Struct, eq=False):
    """The accounts of the files of one check."""

    exhausted: set[str] = field(default_factory=set)  # files that exceeded their budget
    _accounts: dict[str, _Account] = field(default_factory=dict)

    @contextmanager
    def charge(self, path: str) -> Iterator[None]:
        """Charge the work of a ``with`` block to a file.

        Raises:
            OverBudgetError: Inside of the block, where the file has used up its time.
        """
        account = self._accounts.setdefault(path, _Account(COMPARISONS))
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
