"""The pipelines that are shipped, run as a user runs them: real data, real processes, a registered model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
psutil = pytest.importorskip("psutil")
pytestmark = [
    pytest.mark.run,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # MLflow's own use of SQLAlchemy
]


def run(spec: Path, home: Path, *options: str) -> str:
    """What `worldsize run` prints, in a process of its own that must go well and leave nothing behind."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    result = subprocess.run(
        [sys.executable, "-m", "worldsize", "run", str(spec), "--runs-dir", str(home), *options],
        cwd=home.parent, capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    return result.stdout + result.stderr


def newest(home: Path) -> Path:
    return max((home / "runs").iterdir())


def number(home: Path, step: str, port: str, file: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (newest(home) / "steps" / step / "outputs" / port / file).read_text(encoding="utf-8")
    )
    return content


def test_digits_end_as_a_registered_model_that_predicts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    output = run(ROOT / "pipelines/digits_ddp.yml", home, "--processes", "2")
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in output
    assert "digits-cnn version 1" in output
    assert number(home, "evaluate", "metrics", "metrics.json")["accuracy"] >= 0.97

    # A process that has never heard of us loads the registered version and tells the digits apart.
    code = f"""
import mlflow, numpy, sklearn.datasets
mlflow.set_tracking_uri("sqlite:///{home}/mlflow.db")
version = mlflow.MlflowClient().get_model_version("digits-cnn", "1")
assert version.tags["worldsize.global_batch_size"] == "256", version.tags
model = mlflow.pyfunc.load_model("models:/digits-cnn/1")
digits = sklearn.datasets.load_digits()
images = (digits.images / 16).astype("float32")[:, None]
answers = numpy.concatenate([model.predict(images[at:at + 256]) for at in range(0, len(images), 256)])
print((answers.argmax(1) == digits.target).mean())
"""
    result = subprocess.run(
        [sys.executable, "-I", "-c", code], env={**os.environ, "PYTHONPATH": ""}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.split()[-1]) >= 0.97


def test_a_script_that_knows_nothing_of_us(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(ROOT / "pipelines/own_script.yml", home, "--processes", "2")
    assert number(home, "score", "metrics", "metrics.json")["accuracy"] >= 0.95
