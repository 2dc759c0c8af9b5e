from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine, however busy: a failure is the change's, not the day's.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")
# `pytest --hypothesis-profile fuzz tests/unit` looks longer; tests/fuzz/check.py looks longest.
settings.register_profile("fuzz", settings.get_profile("default"), max_examples=20_000, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the committed expectations")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether expectations are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def calls() -> Callable[[Callable[[], object]], int]:
    """Counts the calls that a function makes: the work it does, on however busy a machine."""

    def count(function: Callable[[], object]) -> int:
        made = 0

        def note(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal made
            made += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            function()
        finally:
            sys.setprofile(before)
        return made

    return count
