"""train_tensorflow from the weights of another training, with frozen layers."""

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

from wsshards import manifest as m
from wsshards import terms

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
    pytest.mark.run,
    pytest.mark.timeout(400),
]

FOLDER = Path(__file__).parent
Cluster = runpy.run_path(str(FOLDER / "test_train_tensorflow.py"))["Cluster"]
write_shards = runpy.run_path(str(FOLDER / "shard_folders.py"))["write_shards"]
PLAN = {"batch_size_per_device": 32, "global_batch_size": 32, "learning_rate": 0.02, "optimizer": "adamw"}
NET = """
import keras

def build(input_shape, classes):
    return keras.Sequential([keras.Input(input_shape), keras.layers.Dense(8, name="first"),
                             keras.layers.BatchNormalization(), keras.layers.Dense(8),
                             keras.layers.Dense(classes)])
"""
LEGACY = """
import tf_keras

def build(input_shape, classes):
    layers = tf_keras.layers
    return tf_keras.Sequential([layers.InputLayer(input_shape), layers.Dense(8), layers.BatchNormalization(),
                                layers.Dense(classes)])
"""
NAMES = ["first/kernel", "first/bias", "batch_normalization/gamma", "batch_normalization/beta"]
NAMES += ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]
STATISTICS = ["batch_normalization/moving_mean", "batch_normalization/moving_variance"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Shards of so many classes around points; 4 steps of 32 an epoch."""
    draw, folder = np.random.default_rng(3), tmp_path_factory.mktemp("blobs")

    def rows(count: int, classes: int) -> tuple[Any, Any]:
        labels = draw.integers(0, classes, count)
        return (draw.normal(size=(count, 6)) + 2 * np.eye(6)[labels]).astype(np.float32), labels

    def make(classes: int) -> Path:
        place: Path = folder / str(classes)
        if not place.exists():
            label = m.Label(("y",), tuple("abcdef"[:classes]))
            splits = {"train": rows(128, classes), "validation": rows(37, classes)}
            write_shards(place, terms.CLASSIFICATION, splits, label=label)
        return place

    return make


@pytest.fixture(scope="module")
def start(
    snapshots: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    new_database: Callable[[Path], None],
    start_with_libraries: Callable[[str], list[str]],
    shards: Callable[[int], Path],
) -> Callable[..., Any]:
    """Train one epoch or more with one worker; the run may fail."""
    code = tmp_path_factory.mktemp("tensorflow") / "code"
    shutil.copytree(snapshots("train_tensorflow"), code)
    (code / "net.py").write_text(NET)
    (code / "legacy.py").write_text(LEGACY)

    def run(classes: int = 3, **values: Any) -> Any:
        folder = tmp_path_factory.mktemp("cluster")
        new_database(folder / "mlflow.db")
        python = [*start_with_libraries("train_tensorflow"), sys.executable]
        plan = PLAN | {"epochs": 1, "model": "net.py:build"} | values
        return Cluster(folder, code, shards(classes), {}, python).start(1, **plan).wait()

    return run


@pytest.fixture(scope="module")
def base(start: Callable[..., Any]) -> Any:
    run = start(epochs=2, export="last", keep_best=True)
    assert run.ok, run.errors
    return run


def state(run: Any, step: int) -> dict[str, Any]:
    """The weights of a checkpoint by name."""
    folder = run.folder / "checkpoints" / f"step-{step:08d}"
    names = json.loads((folder / "checkpoint.json").read_text())["names"]
    with np.load(folder / "state.npz") as stored:
        return {
            name: stored[f"{kind}/{number}"]
            for kind, of_kind in names.items()
            for number, name in enumerate(of_kind)
        }


def test_frozen_layers_stay_those_of_the_exported_model(start: Callable[..., Any], base: Any) -> None:
    first = state(base, 8)
    assert sorted(first) == sorted([*NAMES, *STATISTICS])
    tuning = {"initial_model": base.folder / "model", "freeze": "first/kernel,batch*", "export": "last"}
    run = start(stop_after_steps=2, **tuning)
    assert run.ok, run.errors
    said = run.said["worker-0"]
    assert "initial weights: all of SavedModel program" in said
    assert "training 107 of 171 parameters" in said
    tuned, kept = state(run, 2), {"first/kernel", *NAMES[2:4], *STATISTICS}
    assert {name for name, array in tuned.items() if np.array_equal(array, first[name])} == kept
    with np.load(run.folder / "checkpoints" / "step-00000002" / "state.npz") as stored:
        assert len([name for name in stored.files if name.startswith("first/")]) == 5  # of AdamW
    resumed = start(resume_from=run.folder / "checkpoints", **tuning)
    assert resumed.ok, resumed.errors
    assert sorted(resumed.losses) == [3, 4]
    after = state(resumed, 4)
    assert {name for name, array in after.items() if np.array_equal(array, first[name])} == kept


def test_checkpoints_of_other_classes_give_all_but_the_last_layer(
    start: Callable[..., Any], base: Any
) -> None:
    checkpoints = base.folder / "checkpoints"
    best = json.loads((checkpoints / "step-00000008" / "checkpoint.json").read_text())["validation"]
    run = start(5, initial_model=checkpoints, freeze="first, batch_normalization, dense")
    assert run.ok, run.errors
    said = run.said["worker-0"]
    assert f"initial weights: checkpoint step-{best['best_step']:08d}, but the last layer is new:" in said
    assert "dense_1/bias [5] ([3] there), dense_1/kernel [8, 5] ([8, 3] there)" in said
    first, tuned = state(base, best["best_step"]), state(run, 4)
    assert not [name for name in first if "dense_1" not in name and (first[name] != tuned[name]).any()]


def test_a_model_of_tf_keras_starts_from_its_own_weights(start: Callable[..., Any]) -> None:
    own = {"model": "legacy.py:build", "export": "last"}
    base = start(**own)
    assert base.ok, base.errors
    tuning = {"initial_model": base.folder / "model", "freeze": "dense,batch_normalization"}
    run = start(stop_after_steps=2, **own, **tuning)
    assert run.ok, run.errors
    assert "initial weights: all of SavedModel program" in run.said["worker-0"]
    first, tuned = state(base, 4), state(run, 2)
    changed = {name for name, array in tuned.items() if not np.array_equal(array, first[name])}
    assert changed == {"dense_1/kernel", "dense_1/bias"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"freeze": "first", "model": "mlp"}, "`layer_normalization/gamma`"),
        ({"freeze": "dense/bias", "model": "legacy.py:build"}, "and tf-keras freezes whole layers"),
        ({"freeze": "second"}, "`second` in `freeze` matches no parameter of the model"),
        ({"freeze": "*"}, "`freeze` leaves nothing to train: `*` match all 8 tensors"),
        ({"model": "hf:"}, "unknown model `hf:`"),
    ],
)
def test_what_cannot_be_tuned_is_one_sentence(
    start: Callable[..., Any], values: dict[str, Any], message: str
) -> None:
    run = start(**values)
    assert not run.ok
    assert message in run.said["worker-0"]
    assert "Traceback" not in run.said["worker-0"]
