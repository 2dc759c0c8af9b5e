"""The scripts of the shipped pipelines walk the same loss curve in 1, 2 and 4 processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(300), pytest.mark.xdist_group("framework_curves")]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[float]]]:
    """By framework and world size the losses that the first process logs."""
    for name in ("transformers", "lightning", "accelerate"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("curves")
    command = [sys.executable, "-X", "faulthandler", str(HERE / "framework_curves.py"), str(folder)]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MLFLOW_TRACKING_URI": "",
        "CUDA_VISIBLE_DEVICES": "",
    }
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-5000:]
    return dict(json.loads((folder / "curves.json").read_text()))


@pytest.mark.parametrize(
    ("framework", "points"), [("own_transformers", 12), ("own_accelerate", 12), ("own_lightning", 3)]
)
def test_the_loss_does_not_depend_on_the_number_of_processes(
    curves: dict[str, dict[str, list[float]]], framework: str, points: int
) -> None:
    one = curves[framework]["1"]
    assert len(one) == points  # a step each, and with Lightning an epoch each
    assert one[-1] < one[0] - 0.1
    for world in ("2", "4"):
        assert curves[framework][world] == pytest.approx(one, rel=1e-4), f"{world} processes"
