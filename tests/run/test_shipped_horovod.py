"""The digits under Horovod, run as a user runs them: real mpirun, real ranks, a registered model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]


def test_digits_are_learned_over_mpi_and_registered(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    command = [sys.executable, "-m", "worldsize", "run", str(ROOT / "pipelines" / "digits_horovod.yml")]
    result = subprocess.run(
        [*command, "--processes", "2", "--runs-dir", str(home)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in output
    assert "digits-cnn version 1" in output
    (run,) = (home / "runs").iterdir()
    metrics = json.loads((run / "steps/evaluate/outputs/metrics/metrics.json").read_text(encoding="utf-8"))
    assert metrics["accuracy"] >= 0.97
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert not [found for found in psutil.process_iter(["cmdline"]) if str(home) in str(found.info)]
