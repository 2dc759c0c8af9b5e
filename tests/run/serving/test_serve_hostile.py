"""A short `tests/fuzz/serve.py`: hostile requests end in answers, and nowhere else."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from serving import serving

pytestmark = [
    # a killed server leaves its clients' sockets to the collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.run,
    pytest.mark.smoke,
    pytest.mark.timeout(240),
]

FUZZ = runpy.run_path(str(Path(__file__).resolve().parents[2] / "fuzz" / "serve.py"))


def test_hostile_requests_are_answered_and_reach_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "canary.txt").write_text("here")
    notes = tmp_path.with_name("loop.txt")
    with serving(tmp_path / "work", **FUZZ["noting_loop"](notes)) as served:
        result = FUZZ["fuzz"](served, tmp_path, count=300, seed=11, patience=10)
    FUZZ["judge_loop"](notes, result)
    assert result.faults == []
    assert result.answers.total() == 300
