"""Tells where the time of a test run went, and holds the processor time of the fast tests below its bound.

Every run ends with its slowest tests and the seconds by folder. A run of all fast tests fails if they
took more processor time than the bound in ``tests/repo/test_architecture.py``. Processors differ, and
one that is shared is slower: a loop is timed between the tests, and the sum is given in seconds of a
processor that runs it in 10 ms.
"""

from __future__ import annotations

import ast
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import bound_history
import pytest

BOUNDS = Path(__file__).parents[2] / bound_history.FILE
BOUND = "processor seconds of the fast tests"
SLOWEST = 20
LOOP_SECONDS = 0.010
TESTS_BETWEEN_LOOPS = 25
LOOPED = "\n".join(f"value_{number} = {{'a': [{number}, 'text']}}" for number in range(110))


def processor_seconds() -> float:
    """What this process and the processes that it has waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def time_loop() -> float:
    """The processor seconds of a loop that does what fast tests do most: parse, and make small objects."""
    start = time.process_time()
    for _ in range(9):
        names = {node.id: node for node in ast.walk(ast.parse(LOOPED)) if isinstance(node, ast.Name)}
        assert sorted(names)
    return time.process_time() - start


class SpentTime:
    """A plugin of pytest, in the process that shows the results and in each worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.fast_seconds, self.fast_tests = 0.0, 0
        self.loops: list[float] = []
        self.by_test: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        if not item.get_closest_marker("run"):
            if self.fast_tests % TESTS_BETWEEN_LOOPS == 0:
                self.loops.append(time_loop())
            self.fast_tests += 1
        return (yield from self._measure(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        return (yield from self._measure(item))

    def _measure(self, item: pytest.Item) -> Iterator[None]:
        """Count what a fast test uses; not what it ends, which may be the servers of many others."""
        start = processor_seconds()
        result = yield
        if not item.get_closest_marker("run"):
            self.fast_seconds += processor_seconds() - start
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            spent = {"seconds": self.fast_seconds, "tests": self.fast_tests, "loops": self.loops}
            self.config.workeroutput["fast tests"] = spent
        elif self.ran_all_fast_tests() and self.normalised_seconds() > self.bound:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker of xdist has measured."""
        spent = getattr(node, "workeroutput", {}).get("fast tests")
        if spent:  # a worker that crashed has none
            self.fast_seconds += spent["seconds"]
            self.fast_tests += spent["tests"]
            self.loops += spent["loops"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.by_test[report.nodeid] += report.duration

    def ran_all_fast_tests(self) -> bool:
        """Whether this was a run of all fast tests, at their usual speed."""
        options = self.config.option
        whole = self.config.args_source is pytest.Config.ArgsSource.TESTPATHS and not options.keyword
        slowed = sys.gettrace() or options.update_golden or getattr(options, "cov_source", None)
        return whole and not slowed and "not run" in options.markexpr and bool(self.fast_tests)

    @cached_property
    def bound(self) -> int:
        return bound_history.read_bounds(BOUNDS.read_text(encoding="utf-8"))[BOUND]

    def normalised_seconds(self) -> float:
        """The processor seconds of the fast tests on a processor that needs ``LOOP_SECONDS`` for the loop."""
        usual = [each for each in self.loops if each < 3 * statistics.median(self.loops)]  # not held up
        return self.fast_seconds * LOOP_SECONDS / statistics.mean(usual)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if len(self.by_test) <= SLOWEST:
            return
        terminalreporter.section(f"the {SLOWEST} slowest tests")
        for test, seconds in self.by_test.most_common(SLOWEST):
            terminalreporter.line(f"{seconds:8.1f} s  {test}")
        terminalreporter.section("seconds by folder")
        folders: Counter[str] = Counter()
        for test, seconds in self.by_test.items():
            folders["/".join(test.split("/")[:2])] += seconds
        for folder, seconds in folders.most_common():
            terminalreporter.line(f"{seconds:8.1f} s  {folder}")
        if self.ran_all_fast_tests():
            self._tell_processor_time(terminalreporter)

    def _tell_processor_time(self, terminalreporter: Any) -> None:
        spent = self.normalised_seconds()
        line = f"{self.fast_tests} fast tests took {spent:.0f} s of processor time (bound: {self.bound} s)"
        if spent > self.bound:
            terminalreporter.line(f"FAILED: {line}", red=True)
        else:
            terminalreporter.line(line)
