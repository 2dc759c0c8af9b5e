"""Weeks of a small regression by `worldsize retrain`, with the real trainer, comparison and registry."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from retrained_regression import SPEC, add_week

pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]


def test_four_weeks(tmp_path: Path) -> None:
    def look() -> dict[str, Any]:
        words = [sys.executable, "-m", "worldsize", "retrain", "spec.yml", "--json"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    (tmp_path / "spec.yml").write_text(SPEC)
    add_week(tmp_path, 1, 300)
    first = look()
    assert (first["action"], first["champion"], first["model"]) == ("promote", None, "sales")
    quiet = look()
    assert (quiet["action"], quiet["champion"]) == ("none", {"version": "1"})
    add_week(tmp_path, 2, 900)
    second = look()
    assert second["action"] in ("promote", "keep")
    assert second["champion"]["version"] == "1"
    difference = second["difference"]
    assert difference["rows"] > 50
    assert (second["action"] == "promote") is (difference["value"] > 0.84 * difference["standard_error"])
    add_week(tmp_path, 3, 1200, broken=True)
    broken = look()  # the newest rows, which judge both models, are broken too: the floor keeps them out
    assert broken["action"] == "keep"
    assert "r2" in broken["reason"]
    assert look()["champion"] == {"version": "2" if second["action"] == "promote" else "1"}
