"""A short `tests/soak/serve_kills.py`: what a killed server answered is there, and no job starts twice."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytestmark = [
    # a killed server leaves its clients' sockets to the collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.run,
    pytest.mark.timeout(240),
]

SOAK = runpy.run_path(str(Path(__file__).resolve().parents[2] / "soak" / "serve_kills.py"))


def test_a_killed_server_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    tally = SOAK["soak"](tmp_path, kills=3, seed=5, patience=120)
    assert tally.faults == []
    assert tally.counts["killed under load"] == 3
    assert tally.counts["blob"] > 10
    assert tally.counts["data"] > 10
