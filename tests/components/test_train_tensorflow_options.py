"""train_tensorflow with hooks and training options: the same curve with any number of workers."""

from __future__ import annotations

import importlib.util
import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tracked_metrics import read_metric

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
    pytest.mark.run,
    pytest.mark.timeout(400),
]

FOLDER = Path(__file__).parent
Cluster = runpy.run_path(str(FOLDER / "test_train_tensorflow.py"))["Cluster"]
write_blobs = runpy.run_path(str(FOLDER / "shard_folders.py"))["write_blobs"]
PLAN = {"epochs": 2, "batch_size_per_device": 16, "global_batch_size": 32, "learning_rate": 0.02}
PLAN |= {"optimizer": "adamw", "ema_decay": 0.6}
NET = """
import keras
import tensorflow as tf

def build(input_shape, classes):
    return keras.Sequential([keras.Input(input_shape), keras.layers.Dense(16, "tanh"),
                             keras.layers.Dense(classes)])

def prepare(inputs, seed):
    inputs = inputs * 2.0
    return inputs if seed is None else inputs + 0.1 * tf.random.stateless_normal(tf.shape(inputs), seed)

def loss(scores, targets):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, scores)
    return tf.reduce_mean(losses) + 0.01 * tf.reduce_mean(scores ** 2)

def metrics(outputs, targets):
    assert outputs.shape == (37, 3) and targets.shape == (37,)
    return {"second_best": (outputs.argsort(1)[:, 1] == targets).mean()}
"""


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("blobs") / "shards"
    write_blobs(folder)
    return folder


@pytest.fixture(scope="module")
def train(
    snapshots: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    new_database: Callable[[Path], None],
    start_with_libraries: Callable[[str], list[str]],
    blobs: Path,
) -> Callable[..., Any]:
    code = tmp_path_factory.mktemp("tensorflow") / "code"
    shutil.copytree(snapshots("train_tensorflow"), code)
    (code / "net.py").write_text(NET)

    def run(workers: int, **values: Any) -> Any:
        folder = tmp_path_factory.mktemp("cluster")
        new_database(folder / "mlflow.db")
        python = [*start_with_libraries("train_tensorflow"), sys.executable]
        plan = PLAN | {"gradient_accumulation_steps": 2 // workers} | values
        ended = Cluster(folder, code, blobs, {}, python).start(workers, **plan).wait()
        assert ended.ok, ended.errors
        return ended

    return run


def logged(run: Any, name: str) -> dict[int, float]:
    return read_metric(run.folder / "mlflow.db", name)


def test_options_walk_the_same_curve_and_resume_exactly(
    train: Callable[..., Any], component: Callable[..., Any], blobs: Path, tmp_path: Path
) -> None:
    plan = {"model": "mlp", "mixup_alpha": 0.4, "label_smoothing": 0.1, "lr_schedule": "warmup_stable_decay"}
    plan |= {"export": "last", "class_weights": "{a: 4, c: 0.5}"}
    alone = train(1, **plan)
    first = train(2, stop_after_steps=3, **plan)
    resumed = train(1, resume_from=first.folder / "checkpoints", **plan)
    assert sorted(resumed.losses) == [4, 5, 6, 7, 8]
    assert first.losses | resumed.losses == pytest.approx(alone.losses, rel=1e-4)
    assert logged(resumed, "validation_loss")[8] == pytest.approx(
        logged(alone, "validation_loss")[8], rel=1e-4
    )
    with np.load(resumed.folder / "checkpoints" / "step-00000008" / "state.npz") as state:
        assert not np.allclose(state["ema/0"], state["model/0"], rtol=1e-3)
    # What is exported is what was validated: the average.
    done = component("evaluate", model=resumed.folder / "model", shards=blobs, metrics=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "metrics.json").read_text())
    assert measured["loss"] == pytest.approx(logged(resumed, "validation_loss")[8], rel=1e-4)


def test_hooks_are_part_of_training_validation_and_export(
    train: Callable[..., Any], component: Callable[..., Any], blobs: Path, tmp_path: Path
) -> None:
    plan = {"model": "net.py:build", "best_metric": "second_best", "best_metric_goal": "minimize"}
    alone, group = train(1, **plan), train(2, **plan)
    assert group.losses == pytest.approx(alone.losses, rel=1e-4)
    for name in ("loss", "accuracy", "second_best"):
        values = logged(alone, f"validation_{name}")
        assert sorted(values) == [4, 8]
        assert logged(group, f"validation_{name}") == pytest.approx(values, rel=1e-4)
    best = min((value, step) for step, value in logged(group, "validation_second_best").items())[1]
    said = f"exporting the weights of step {best}, the best: validation_second_best"
    assert said in group.said["worker-0"]
    done = component("evaluate", model=group.folder / "model", shards=blobs, metrics=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "metrics.json").read_text())
    assert measured["accuracy"] == pytest.approx(logged(group, "validation_accuracy")[best])
    assert measured["loss"] < logged(group, "validation_loss")[best]  # that one is the user's
