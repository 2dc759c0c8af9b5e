"""The pipelines that are shipped, run as a user runs them: real data, real processes, a registered model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shipped_runs import read_losses

pytestmark = [pytest.mark.run, pytest.mark.timeout(900)]

# A process that has never heard of us loads the registered version and tells the digits apart.
ANYBODY = """
import mlflow, numpy, sklearn.datasets, sys
mlflow.set_tracking_uri(sys.argv[1])
version = mlflow.MlflowClient().get_model_version("digits-cnn", "1")
assert version.tags["worldsize.global_batch_size"] == "256", version.tags
model = mlflow.pyfunc.load_model("models:/digits-cnn/1")
digits = sklearn.datasets.load_digits()
images = (digits.images / 16).astype("float32")[:, None]
answers = numpy.concatenate([model.predict(images[at:at + 256]) for at in range(0, len(images), 256)])
print((answers.argmax(1) == digits.target).mean())
"""


def test_digits_end_as_a_registered_model_that_predicts_and_one_process_learns_the_same(
    shipped: Callable[..., Any], tmp_path: Path
) -> None:
    run = shipped("digits_ddp", train={"with": {"epochs": 8}})
    assert "planned for 8 processes (2 × 4), running 2 here with accumulation ×4" in run.output
    assert "digits-cnn version 1" in run.output
    assert run.metrics["accuracy"] >= 0.97

    result = subprocess.run(
        [sys.executable, "-I", "-c", ANYBODY, f"sqlite:///{run.home}/mlflow.db"],
        env={**os.environ, "PYTHONPATH": ""}, cwd=tmp_path,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert float(result.stdout.split()[-1]) >= 0.97

    # The main promise: the loss of every step is the same with one process as it was with two.
    shipped("digits_ddp", processes=1, steps=("shard", "train"), train={"with": {"epochs": 8}})
    two, one = read_losses(run.home)
    assert sorted(one) == sorted(two) == list(range(1, 41))  # 8 epochs of 5 steps
    for step in range(1, 16):  # three epochs
        assert two[step] == pytest.approx(one[step], rel=1e-4), f"step {step}"


def test_a_script_that_knows_nothing_of_us(shipped: Callable[..., Any]) -> None:
    assert shipped("own_script").metrics["accuracy"] >= 0.95


def test_texts_end_as_a_fine_tuned_model_and_one_process_learns_the_same(shipped: Callable[..., Any]) -> None:
    pytest.importorskip("peft")
    run = shipped("finetune_text")
    assert "reviews-bert version 1" in run.output
    assert run.metrics["accuracy"] >= 0.9
    shipped("finetune_text", processes=1, steps=("prepare", "shard", "train"))
    two, one = read_losses(run.home)
    assert sorted(one) == sorted(two)
    for step in range(1, 16):
        assert two[step] == pytest.approx(one[step], rel=1e-4), f"step {step}"
