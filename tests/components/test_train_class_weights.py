"""Class weights: what the loss of each framework is, and the same curve however a global batch is divided."""

from __future__ import annotations

import importlib.util
import json
import runpy
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsmodels.mlmodel import read_mlmodel
from wsshards import manifest as m
from wsshards import terms
from wsshards.reader import ShardReader

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]

FOLDER = Path(__file__).parent
write_shards = runpy.run_path(str(FOLDER / "shard_folders.py"))["write_shards"]
Training = Callable[..., Any]
# Micro-batches of 4 rows have between none and three of the rare class: their sums of weights differ much.
PLAN = {"batch_size_per_device": 4, "global_batch_size": 16, "epochs": 2, "model": "mlp", "optimizer": "sgd"}
PLAN |= {"learning_rate": 0.1, "class_weights": "balanced", "label_smoothing": 0.1, "export": "last"}
RARE, RARER = 0.15, 0.08


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of two classes of which one is rare; 8 steps of 16 rows an epoch."""
    folder: Path = tmp_path_factory.mktemp("rare") / "shards"
    draw = np.random.default_rng(5)

    def rows(count: int, share: float) -> tuple[Any, Any]:
        labels = (draw.random(count) < share).astype(np.int64)
        return (draw.normal(size=(count, 5)) + labels[:, None]).astype(np.float32), labels

    label = m.Label(("y",), ("no", "yes"))
    splits = {"train": rows(128, RARE), "validation": rows(64, RARER)}
    write_shards(folder, terms.CLASSIFICATION, splits, label=label)
    return folder


@pytest.fixture(scope="module")
def alone(training: Training, rare: Path) -> Any:
    run = training(1, shards=rare, gradient_accumulation_steps=4, **PLAN)
    assert run.ok, run.errors
    return run


@pytest.mark.parametrize(
    ("processes", "values"),
    [
        pytest.param(2, {"strategy": "fsdp"}, marks=pytest.mark.smoke),
        (4, {}),
        pytest.param(
            2,
            {"component": "train_deepspeed", "strategy": "deepspeed", "zero_stage": 2},
            marks=pytest.mark.skipif(not importlib.util.find_spec("deepspeed"), reason="no DeepSpeed"),
        ),
        pytest.param(
            2,
            {"component": "train_horovod", "strategy": "horovod"},
            marks=[
                pytest.mark.skipif(not importlib.util.find_spec("horovod"), reason="no Horovod"),
                pytest.mark.horovod,
            ],
        ),
    ],
)
def test_weighted_losses_walk_the_curve_of_one_process(
    training: Training, rare: Path, alone: Any, processes: int, values: dict[str, Any]
) -> None:
    run = training(processes, shards=rare, gradient_accumulation_steps=4 // processes, **PLAN, **values)
    assert run.ok, run.errors
    assert sorted(run.losses) == sorted(alone.losses) == list(range(1, 17))
    assert run.losses == pytest.approx(alone.losses, rel=1e-4)


def test_mixed_targets_with_weights_walk_one_curve_and_resume_exactly(training: Training, rare: Path) -> None:
    common = {**PLAN, "shards": rare, "mixup_alpha": 0.4, "class_weights": "{yes: 4}"}
    whole = training(1, gradient_accumulation_steps=4, **common)
    first = training(2, gradient_accumulation_steps=2, stop_after_steps=5, **common)
    resumed = training(2, gradient_accumulation_steps=2, resume_from=first.folder / "checkpoints", **common)
    for run in (whole, first, resumed):
        assert run.ok, run.errors
    assert first.losses | resumed.losses == pytest.approx(whole.losses, rel=1e-4)
    assert sorted(resumed.losses) == list(range(6, 17))
    other = {**common, "class_weights": "{yes: 5}", "resume_from": first.folder / "checkpoints"}
    refused = training(1, gradient_accumulation_steps=4, **other)
    assert not refused.ok
    assert "class_weights" in refused.errors


def test_classes_that_the_shards_do_not_have_stop_the_training_at_its_start(
    training: Training, rare: Path
) -> None:
    refused = training(
        1, gradient_accumulation_steps=4, shards=rare, **{**PLAN, "class_weights": "{maybe: 2}"}
    )
    assert "`class_weights` names `maybe`, which is not one of the 2 classes" in refused.errors


def test_labels_are_those_of_the_rows(rare: Path) -> None:
    reader = ShardReader(rare, "train")
    assert reader.labels().tolist() == reader.gather(np.arange(128))[1].tolist()  # type: ignore[union-attr]


@pytest.fixture
def batch() -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    return draw.normal(size=(12, 3)).astype(np.float32), draw.integers(0, 3, 12)


WEIGHTS = (0.5, 1.0, 4.0)


def torch_loss(scores: Any, targets: Any, smoothing: float) -> tuple[float, Any]:
    from wstrain_torch.data import make_task

    task = make_task(terms.CLASSIFICATION, (5,), "float32", 3)
    task = replace(task, class_weights=torch.tensor(WEIGHTS), label_smoothing=smoothing)
    outputs = torch.tensor(scores, requires_grad=True)
    loss = task.loss(outputs, torch.tensor(targets))
    loss.backward()
    return loss.item(), outputs.grad


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_loss_is_the_sum_of_weighted_losses_divided_by_the_samples(
    batch: tuple[Any, Any], smoothing: float, mixed: bool
) -> None:
    scores, classes = batch
    shares = np.eye(3, dtype=np.float32)[classes]
    shares = 0.3 * shares + 0.7 * shares[::-1] if mixed else shares
    targets = shares if mixed else classes
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    parts = -logs * ((1 - smoothing) * shares + smoothing / 3) * np.array(WEIGHTS)
    whole, gradient = torch_loss(scores, targets, smoothing)
    assert whole == pytest.approx(parts.sum() / len(scores), rel=1e-5)
    # A mean over samples: the mean of the parts of a batch, however unlike their weights are.
    order = np.argsort(classes)
    cut = [torch_loss(scores[part], targets[part], smoothing) for part in np.split(order, 4)]
    assert np.mean([loss for loss, _ in cut]) == pytest.approx(whole, rel=1e-5)
    together = torch.cat([part for _, part in cut]) / 4
    assert torch.allclose(together, gradient[torch.tensor(order)], atol=1e-6)


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
@pytest.mark.parametrize("mixed", [False, True])
def test_tensorflow_has_the_loss_and_gradient_of_torch(batch: tuple[Any, Any], mixed: bool) -> None:
    import tensorflow as tf

    from wstrain.data.sample_spec import make_sample_spec
    from wstrain_tensorflow.task import compute_loss, make_task

    scores, classes = batch
    targets = 0.3 * np.eye(3, dtype=np.float32)[classes] + np.float32(0.7 / 3) if mixed else classes
    task = make_task(make_sample_spec(terms.CLASSIFICATION, (5,), "float32", 3), None, 0.2)
    task = replace(task, class_weights=WEIGHTS)
    with tf.GradientTape() as tape:
        outputs = tf.Variable(scores)
        loss = compute_loss(task, outputs, targets)
    expected, gradient = torch_loss(scores, targets, 0.2)
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    assert np.allclose(tape.gradient(loss, outputs).numpy(), gradient.numpy(), atol=1e-6)


@pytest.fixture
def train_tensorflow(
    rare: Path,
    snapshots: Callable[[str], Path],
    new_database: Callable[[Path], None],
    start_with_libraries: Callable[[str], list[str]],
    tmp_path: Path,
) -> Callable[[int], Any]:
    cluster = runpy.run_path(str(FOLDER / "test_train_tensorflow.py"))["Cluster"]
    code = shutil.copytree(snapshots("train_tensorflow"), tmp_path / "code")

    def run(workers: int) -> Any:
        folder = tmp_path / f"workers-{workers}"
        folder.mkdir()
        new_database(folder / "mlflow.db")
        python = [*start_with_libraries("train_tensorflow"), sys.executable]
        plan = {**PLAN, "batch_size_per_device": 8, "gradient_accumulation_steps": 2 // workers}
        ended = cluster(folder, code, rare, {}, python).start(workers, **plan).wait()
        assert ended.ok, ended.errors
        return ended

    return run


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
def test_tensorflow_walks_one_curve_and_evaluate_decides_from_the_threshold_that_it_keeps(
    train_tensorflow: Callable[[int], Any], rare: Path, component: Callable[..., Any], tmp_path: Path
) -> None:
    runs = [train_tensorflow(workers) for workers in (1, 2)]
    assert sorted(runs[0].losses) == list(range(1, 17))
    assert runs[1].losses == pytest.approx(runs[0].losses, rel=1e-4)

    model = runs[1].folder / "model"
    done = component("evaluate", model=model, shards=rare, metrics=tmp_path / "metrics")
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "metrics" / "metrics.json").read_text())
    facts = read_mlmodel(str(model))["metadata"]["worldsize"]
    assert measured["decision_threshold"] == facts["decision_threshold"]
    # On the rows that it was chosen on, no other threshold has a larger F1.
    assert measured["f1_at_threshold"] >= measured["f1_yes"]
    assert "; the constant answer `no` gets 0." in done.stdout
    assert done.stdout.index("average_precision: ") < done.stdout.index("accuracy: ")


def test_the_metadata_of_the_model_has_the_weights_and_the_threshold(alone: Any) -> None:
    facts = read_mlmodel(str(alone.folder / "model"))["metadata"]["worldsize"]
    assert facts["class_weights"] == "balanced"
    assert 0 < facts["decision_threshold"] < 1
    card = json.loads((alone.folder / "checkpoints" / "step-00000016" / "checkpoint.json").read_text())
    assert card["identity"]["class_weights"] == "balanced"
