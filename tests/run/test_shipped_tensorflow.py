"""The TensorFlow pipelines that are shipped, run as a user runs them, down to a registered model."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
psutil = pytest.importorskip("psutil")
HERE = importlib.util.find_spec("tensorflow")  # importing it takes seconds
pytestmark = [
    pytest.mark.skipif(HERE is None, reason="TensorFlow is not installed"),
    pytest.mark.run,
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize(
    ("name", "accuracy", "tasks"),
    [
        ("digits_tensorflow", 0.97, {"worker-0", "worker-1"}),
        ("digits_parameter_server", 0.95, {"worker-0", "worker-1", "ps-0"}),
    ],
)
def test_digits_end_as_a_registered_model(
    name: str, accuracy: float, tasks: set[str], tmp_path: Path
) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    home = tmp_path / "home"
    command = [sys.executable, "-m", "worldsize", "run", str(ROOT / "pipelines" / f"{name}.yml")]
    result = subprocess.run(
        [*command, "--runs-dir", str(home), "--processes", "2"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert "digits-cnn version 1" in result.stdout + result.stderr
    (run,) = (home / "runs").iterdir()
    assert {path.stem for path in (run / "steps" / "train" / "logs").glob("*.log")} >= tasks
    metrics = run / "steps" / "evaluate" / "outputs" / "metrics" / "metrics.json"
    assert json.loads(metrics.read_text(encoding="utf-8"))["accuracy"] >= accuracy
