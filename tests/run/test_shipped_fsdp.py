"""The pipeline with sharded weights as it is shipped, but for a smaller model and fewer steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
pytest.importorskip("torch")
psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]

SMALL = {"epochs": 0.05, "gpt_layers": 2, "gpt_width": 32}


def small_spec() -> dict[str, Any]:
    """The shipped spec, and beside its training the same one with whole copies."""
    spec: dict[str, Any] = yaml.safe_load((ROOT / "pipelines/python_source_gpt_fsdp.yml").read_text("utf-8"))
    steps = spec["steps"]
    assert steps["train"]["with"]["strategy"] == "fsdp"
    steps["train"]["with"] |= SMALL
    steps["shard"]["with"]["validation_fraction"] = 0.02
    steps["whole"] = {**steps["train"], "with": {**steps["train"]["with"], "strategy": "ddp"}}
    steps["evaluate"]["with"] = {"model": "${{parent.jobs.train.outputs.model}}"}
    steps["evaluate_whole"] = {
        **steps["evaluate"],
        "with": {"model": "${{parent.jobs.whole.outputs.model}}"},
    }
    steps["register"]["with"] |= {
        "model": "${{parent.jobs.train.outputs.model}}",
        "metrics": "${{parent.jobs.evaluate.outputs.metrics}}",
    }
    steps["register"]["when"] = {"bits_per_byte": "< 8"}
    return spec


def test_sharded_weights_end_as_the_same_registered_model(tmp_path: Path) -> None:
    path, home = tmp_path / "small.yml", tmp_path / "home"
    path.write_text(yaml.safe_dump(small_spec(), sort_keys=False), encoding="utf-8")
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "run", path, "--runs-dir", home, "--processes", "2"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert "python-source-gpt version 1" in done.stdout + done.stderr

    (run,) = (home / "runs").iterdir()
    bits = {}
    for step in ("evaluate", "evaluate_whole"):
        text = (run / "steps" / step / "outputs/metrics/metrics.json").read_text(encoding="utf-8")
        bits[step] = json.loads(text)["bits_per_byte"]
    assert bits["evaluate"] < 6.5  # it has learned something: 8 bits is knowing nothing
    assert bits["evaluate"] == pytest.approx(bits["evaluate_whole"], rel=1e-2)
    checkpoints = list((run / "steps/train/outputs/checkpoints").glob("step-*/__1_0.distcp"))
    assert checkpoints, "rank 1 wrote no part"
