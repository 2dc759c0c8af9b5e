"""A spec's sweep runs here: trials of two processes, the best one's model is evaluated and is the output."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("mlflow")
pytest.importorskip("torch")
pytest.importorskip("psutil")
pytestmark = [pytest.mark.run, pytest.mark.timeout(280)]

SPEC = """
    name: digits
    compute:
      cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}
    inputs: {epochs: 5}
    outputs: {model: "${{parent.jobs.train.outputs.model}}"}
    steps:
      shard: {uses: shard_data, with: {source: "builtin:digits"}}
      train:
        uses: train_ddp
        instance_count: 4
        with: {model: mlp, epochs: "${{parent.inputs.epochs}}"}
        scale: {reference: {batch_size: 32, learning_rate: 0.05}}
        sweep:
          search_space:
            global_batch_size: {type: choice, values: [64, 128]}
          sampling_algorithm: grid
          objective: {goal: minimize, primary_metric: loss}
          limits: {max_total_trials: 2, max_concurrent_trials: 1}
      evaluate: {uses: evaluate}
"""


def test_trials_are_planned_and_the_best_one_is_the_output(project: Any) -> None:
    project.write("spec.yml", SPEC)
    command = [
        sys.executable,
        "-m",
        "worldsize",
        "run",
        "spec.yml",
        "--processes",
        "2",
        "--set",
        "inputs.epochs=1",
    ]
    done = subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, timeout=270, check=False
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert "running 2 here, the global batch of each trial unchanged" in text
    sweep = json.loads((project.newest / "steps" / "train" / "sweep.json").read_text())
    assert [trial["parameters"] for trial in sweep["trials"]] == [
        {"global_batch_size": 64},
        {"global_batch_size": 128},
    ]
    # 1438 rows are 22 steps of 64 samples and 11 of 128 in the one epoch that was asked for.
    assert "step 22/22" in project.log("train.trial-000")
    assert "step 11/11" in project.log("train.trial-001")
    assert "output   model: .worldsize/runs/" in text
    best = project.newest / "steps" / sweep["best"] / "outputs" / "model"
    assert (project.newest / "outputs" / "model").resolve() == best.resolve()
    assert (project.newest / "steps" / "evaluate" / "outputs" / "metrics" / "metrics.json").exists()
    listed = subprocess.run(
        [sys.executable, "-m", "worldsize", "show", "last", "--json"],
        cwd=project.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(listed.stdout)["outputs"]["model"].endswith("outputs/model")
