from __future__ import annotations

import cProfile
import gc
import importlib.util
import os
import runpy
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path

import case_pages
import pytest
from hypothesis import HealthCheck, settings
from spent_time import SpentTime

# A shell starts what it runs in the background with SIGINT ignored, and every process inherits that: no
# Ctrl-C would reach what a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests share the cores: a thread of torch that spins while it waits keeps the others from what it waits for.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Hundreds of processes import the same modules: Python keeps what it compiles, whatever its variable says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The same examples on every machine, however busy: a failure is the change's, not the day's.
settings.register_profile(
    "repeatable",
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
# `pytest --hypothesis-profile fuzz tests/unit` looks longer; tests/fuzz/check.py looks longest.
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=20_000, deadline=None)

MARKS = ("run", "smoke", "horovod", "bench")
MEMORY, ROOM = Path("/dev/shm"), 2 << 30
CASES = Path(__file__).with_name("golden")
WITH_RUNS: set[Path] = set()  # files with real runs that are before us


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the committed expectations")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of fast tests in memory: making thousands on a disk takes a third of their time."""
    if "not run" in config.option.markexpr and not hasattr(config, "workerinput") and has_memory_folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    config.pluginmanager.register(SpentTime(config))


def has_memory_folder() -> bool:
    """Whether there is a folder in memory with room, where programs may run."""
    try:
        status = os.statvfs(MEMORY)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize > ROOM and not status.f_flag & os.ST_NOEXEC


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write the components' files before anything that follows from them is written."""
    if session.config.option.update_golden and not hasattr(session.config, "workerinput"):
        files = Path(__file__).with_name("repo") / "component_files.py"
        runpy.run_path(str(files))["write_components"]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders of cases, which hold no tests, and a module that `-m` deselects as a whole.

    Importing some of those takes torch or MLflow.
    """
    if collection_path.parent == CASES:
        return collection_path.is_dir() or None
    selected = config.option.markexpr
    if collection_path.suffix != ".py" or not selected:
        return None
    text = collection_path.read_text(encoding="utf-8")
    of_every_test = text.partition("\npytestmark = ")[2].partition("\n\n")[0]
    for mark in MARKS:
        if (f"mark.{mark}" in of_every_test) != (f"mark.{mark}" in text):
            return None  # only some of its tests have the mark
    marks = defaultdict(bool, {mark: f"mark.{mark}" in text for mark in MARKS})
    return not eval(selected, {}, marks) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files with real runs first: the short tests then fill what is left of each worker's time."""
    WITH_RUNS.update(item.path for item in items if item.get_closest_marker("run"))
    items.sort(key=lambda item: item.path not in WITH_RUNS)
    if importlib.util.find_spec("horovod") is None:
        skip = pytest.mark.skip(reason="Horovod is not built: `make horovod`")
        for item in items:
            if item.get_closest_marker("horovod"):
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Let the garbage collector look seldom: it took a fifth of the time."""
    pass_over_what_is_there()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Where the short tests begin, leave the collector nothing of the libraries that real runs imported."""
    if WITH_RUNS and item.path not in WITH_RUNS:
        WITH_RUNS.clear()
        pass_over_what_is_there()


MANY_OPEN = 400  # files of a process, of which `select` takes 1024


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Let the collector close what a file of tests has left open: databases of the threads of a server."""
    of_file = nextitem is None or nextitem.path != item.path
    opened = Path("/proc/self/fd")
    if of_file and opened.exists() and sum(1 for _ in opened.iterdir()) > MANY_OPEN:
        gc.collect()


def pass_over_what_is_there() -> None:
    """Let the garbage collector pass over all objects that are alive."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Writes all files of a page of cases to a folder of its own, at the first call for that page."""
    folder = tmp_path_factory.mktemp("pages")
    return cache(lambda page: case_pages.write(case_pages.read(page).files, folder / page.stem))


@pytest.fixture
def calls() -> Callable[[Callable[[], object]], int]:
    """Counts the calls that a function makes: the work it does, on however busy a machine."""

    def count(function: Callable[[], object]) -> int:
        profile = cProfile.Profile()
        profile.enable()
        try:
            function()
        finally:
            profile.disable()
        return sum(entry.callcount for entry in profile.getstats())

    return count
