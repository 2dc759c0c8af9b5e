"""Validation while training, best checkpoint, early stopping, and each task, in real process groups."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsmetrics.names import METRICS
from wsshards import manifest as m
from wsshards import terms
from wsshards.reader import ShardReader

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]

write_shards = runpy.run_path(str(Path(__file__).with_name("shard_folders.py")))["write_shards"]
Training = Callable[..., Any]
MLP = {"model": "mlp", "batch_size_per_device": 8, "global_batch_size": 32, "learning_rate": 0.05}
COLUMNS = (
    m.Column("area", mean=(0.1,), optional=True),
    m.Column("town", terms.CATEGORY, ("Åland", "Berlin", "Chur")),
    m.Column("sold", terms.DATE, mean=(15_000.0, 43_200.0)),
    m.Column("new", terms.BOOLEAN, mean=(0.5,), optional=True),
    m.Column("seen", terms.DATE, mean=(15_000.0, 0.0), form="%d/%m/%Y"),
)


def write_houses(folder: Path) -> m.Manifest:
    """A table in which the price follows from all columns, and cells are missing."""
    draw = np.random.default_rng(0)

    def rows(count: int) -> tuple[Any, Any]:
        area, town = draw.normal(size=count), draw.integers(0, 3, count)
        days, new = draw.integers(14_000, 16_000, count), draw.integers(0, 2, count)
        price = 200 + 40 * area + 30 * town + 20 * new + (days - 15_000) / 50
        rent = 5 + area + draw.normal(scale=0.1, size=count)
        features = np.stack([area, town, days, np.full(count, 43_200), new, days, 0 * days], 1).astype(
            np.float32
        )
        features[::7, 0] = features[::5, 4] = np.nan
        return features, np.stack([price, rent], 1)

    features = m.Features("features", "float32", (7,), columns=COLUMNS)
    splits = {"train": rows(160), "validation": rows(53)}
    return write_shards(folder, terms.REGRESSION, splits, label=m.Label(("price", "rent")), features=features)


def write_noise(folder: Path, task: str = terms.REGRESSION) -> m.Manifest:
    """Rows whose labels follow from nothing: what a model learns of them makes it worse on others."""
    draw = np.random.default_rng(1)

    def rows(count: int) -> tuple[Any, Any]:
        features = draw.normal(size=(count, 6)).astype(np.float32)
        if task == terms.MULTI_LABEL:
            return features, (draw.random((count, 3)) < 0.4).astype(np.uint8)
        return features, draw.normal(size=(count, 1))

    label = m.Label(("y",)) if task == terms.REGRESSION else m.Label(("tags",), ("a", "b", "c"))
    return write_shards(folder, task, {"train": rows(64), "validation": rows(41)}, label=label)


@pytest.fixture(scope="session")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noise") / "shards"
    write_noise(folder)
    return folder


def validations(run: Any) -> dict[int, dict[str, float]]:
    """What the live view got of each validation, by step."""
    lines = (run.folder / "progress.jsonl").read_text().splitlines()
    found: dict[int, dict[str, float]] = {}
    for record in map(json.loads, lines):
        metrics = {name: value for name, value in record.items() if name.startswith("validation_")}
        if metrics and metrics not in found.values():
            found[record["step"]] = metrics
    return found


def predict(run: Any, rows: Any) -> Any:
    program = torch.export.load(run.folder / "model" / "artifacts" / "program.pt2").module()
    with torch.no_grad():
        return program(torch.from_numpy(np.array(rows))).numpy()


def squared_error(run: Any, shards: Path) -> float:
    """The mean squared error of the exported model on the validation rows, in the targets' unit."""
    reader = ShardReader(shards, "validation")
    rows, targets = reader.gather(np.arange(len(reader)))
    assert targets is not None
    return float(((predict(run, rows) - targets) ** 2).mean())


def test_a_regression_is_the_same_at_any_world_size_and_takes_a_table(
    training: Training, warm: Callable[..., list[str]], tmp_path: Path
) -> None:
    shards = tmp_path / "houses"
    write_houses(shards)
    common = MLP | {"shards": shards, "epochs": 4, "optimizer": "adam", "learning_rate": 0.01}
    common |= {"best_metric": "mse"}
    runs = [training(n, gradient_accumulation_steps=4 // n, **common) for n in (1, 2)]
    assert all(run.ok for run in runs), runs[1].errors
    alone, group = runs
    assert alone.losses == pytest.approx(group.losses, rel=1e-5)
    first, second = validations(alone), validations(group)
    assert sorted(first) == sorted(second) == [5, 10, 15, 20]
    for step, metrics in first.items():
        assert set(metrics) == {f"validation_{name}" for name in ("loss", "mse", "rmse", "mae", "r2")}
        assert second[step] == pytest.approx(metrics, rel=1e-6), step
    assert squared_error(group, shards) == pytest.approx(
        min(metrics["validation_mse"] for metrics in second.values()), rel=1e-4
    )
    # Two models of different tables in one process, each given raw columns in another order.
    other = tmp_path / "other"
    shutil.copytree(group.folder / "model", other)
    facts = json.loads((other / "artifacts" / "raw_rows.json").read_text())
    facts["columns"][1]["categories"] = ["Chur", "Berlin", "Åland"]
    (other / "artifacts" / "raw_rows.json").write_text(json.dumps(facts))
    code = tmp_path / "predict.py"
    code.write_text(PREDICT_TABLES)
    arguments = [*warm(), sys.executable, str(code), str(group.folder / "model"), str(other)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    coded = np.array(
        [[0.5, 2, 15_000, 3600, 1, 14_641, 0], [np.nan, -1, 14_610, 0, np.nan, 14_635, 0]], np.float32
    )
    assert np.allclose(answers["first"], predict(group, coded), rtol=1e-5)
    coded[0, 1] = 0
    assert np.allclose(answers["second"], predict(group, coded), rtol=1e-5)
    assert answers["first"] == answers["again"]
    assert answers["types"] == ["double", "string", "datetime", "boolean", "string"]
    assert answers["required"] == [False, True, True, False, True]


PREDICT_TABLES = """
import json, sys
import mlflow, pandas as pd
first, second = map(mlflow.pyfunc.load_model, sys.argv[1:])
assert "wstrain" not in sys.modules
frame = pd.DataFrame({
    "new": [True, None],
    "town": ["Chur", "Paris"],
    "sold": pd.to_datetime(["2011-01-26 01:00", "2010-01-01 00:00"]),
    "area": [0.5, None],
    "seen": ["01/02/2010", "26/01/2010"],
})
inputs = first.metadata.get_input_schema().inputs
print(json.dumps({
    "first": first.predict(frame).to_numpy().tolist(),
    "second": second.predict(frame).to_numpy().tolist(),
    "again": first.predict(frame[["area", "town", "seen", "sold", "new"]]).to_numpy().tolist(),
    "types": [column.type.name for column in inputs],
    "required": [column.required for column in inputs],
}))
"""


@pytest.mark.smoke
def test_validating_does_not_change_the_curve(training: Training, tmp_path: Path) -> None:
    shards = tmp_path / "tags"
    write_noise(shards, terms.MULTI_LABEL)
    common = MLP | {"shards": shards, "epochs": 3, "gradient_accumulation_steps": 2}
    validated = training(2, validate_every_steps=1, best_metric="f1", **common)
    assert validated.ok, validated.errors
    bare = training(2, validate_every_epochs=0, **common)
    assert bare.ok, bare.errors
    assert validated.losses == bare.losses  # bit for bit
    assert sorted(validations(validated)) == [1, 2, 3, 4, 5, 6]
    assert set(validations(validated)[6]) == {
        f"validation_{name}" for name in METRICS[terms.MULTI_LABEL] if name != "rows"
    }
    assert not validations(bare)
    assert "exporting the weights of the last step, 6: there was no validation" in bare.ranks[0].stdout
    scores = predict(validated, np.zeros((3, 6), np.float32))
    assert scores.shape == (3, 3)
    assert ((scores > 0) & (scores < 1)).all()


STOPPING = MLP | {"epochs": 30, "early_stopping_patience": 3, "best_metric": "mse", "lr_schedule": "constant"}


@pytest.fixture(scope="session")
def stopped_early(training: Training, noise: Path) -> Any:
    run = training(2, shards=noise, gradient_accumulation_steps=2, **STOPPING)
    assert run.ok, run.errors
    return run


@pytest.mark.smoke
def test_it_stops_early_and_exports_the_best(stopped_early: Any, noise: Path) -> None:
    values = {step: metrics["validation_mse"] for step, metrics in validations(stopped_early).items()}
    best = min(values, key=values.__getitem__)
    assert max(values) == best + 3 * 2 < 60
    assert max(stopped_early.losses) == max(values)
    assert squared_error(stopped_early, noise) == pytest.approx(values[best], rel=1e-5)
    assert values[max(values)] > values[best] * 1.001  # the last weights are others
    said = stopped_early.ranks[0].stdout
    assert f"stopping early after step {max(values)}: 3 validations without improvement" in said
    assert f"exporting the weights of step {best}, the best: validation_mse" in said
    kept = sorted(path.name for path in (stopped_early.folder / "checkpoints").iterdir())
    assert kept == [f"step-{step:08d}" for step in (best, max(values) - 2, max(values))]


@pytest.mark.smoke
def test_killed_and_resumed_it_stops_at_the_same_step_and_exports_the_same_weights(
    training: Training,
    noise: Path,
    stopped_early: Any,
    fault: Callable[..., dict[str, str]],
    tmp_path: Path,
) -> None:
    values = {step: metrics["validation_mse"] for step, metrics in validations(stopped_early).items()}
    best, last = min(values, key=values.__getitem__), max(values)
    common = STOPPING | {"shards": noise, "gradient_accumulation_steps": 2, "checkpoint_async": False}
    own = {"checkpoints": tmp_path / "own"}
    killed = training(2, env=fault(1, last - 1, "SIGKILL"), **common, **own)
    assert -9 in [rank.status for rank in killed.ranks], killed.errors
    resumed = training(2, **common, **own)
    assert resumed.ok, resumed.errors
    assert max(resumed.losses) == last
    rows = np.random.default_rng(5).normal(size=(9, 6)).astype(np.float32)
    assert (predict(resumed, rows) == predict(stopped_early, rows)).all()
    # Another job with one process takes over: the best checkpoint comes along.
    alone = common | {"gradient_accumulation_steps": 4, "resume_from": tmp_path / "own"}
    taken_over = training(1, **alone)
    assert taken_over.ok, taken_over.errors
    assert not taken_over.losses  # it had stopped
    assert (predict(taken_over, rows) == predict(stopped_early, rows)).all()
    assert (taken_over.folder / "checkpoints" / f"step-{best:08d}").is_dir()


@pytest.mark.parametrize(
    ("component", "more"),
    [
        ("train_ddp", {"strategy": "fsdp"}),
        ("train_ddp", {"strategy": "fsdp", "fsdp_reshard": "never"}),
        ("train_deepspeed", {"zero_stage": 2}),
        ("train_deepspeed", {"zero_stage": 3}),
        ("train_horovod", {}),
    ],
)
def test_every_strategy_stops_and_exports_alike(
    training: Training, noise: Path, stopped_early: Any, component: str, more: dict[str, Any]
) -> None:
    if component != "train_ddp":
        pytest.importorskip(component.removeprefix("train_"))
    run = training(2, component=component, shards=noise, gradient_accumulation_steps=2, **STOPPING, **more)
    assert run.ok, run.errors
    expected = validations(stopped_early)
    measured = validations(run)
    assert sorted(measured) == sorted(expected)
    for step, metrics in expected.items():
        assert measured[step] == pytest.approx(metrics, rel=1e-4), step
    assert squared_error(run, noise) == pytest.approx(squared_error(stopped_early, noise), rel=1e-4)


def test_a_divided_language_model_is_measured_as_a_whole_one(training: Training, tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    tokens = {name: (draw.integers(0, 60, (count, 17)).astype(np.uint8), None) for name, count in SPLITS}
    features = m.Features("tokens", "uint8", (17,))
    write_shards(tmp_path / "text", terms.LANGUAGE_MODEL, tokens, features=features)
    common = {"shards": tmp_path / "text", "model": "gpt", "gpt_layers": 2, "gpt_heads": 2, "gpt_width": 16}
    common |= {"epochs": 2, "batch_size_per_device": 4, "global_batch_size": 16, "learning_rate": 0.1}
    common |= {"gradient_accumulation_steps": 4}
    alone = training(1, **common)
    assert alone.ok, alone.errors
    whole = validations(alone)
    assert set(whole[8]) == {f"validation_{n}" for n in ("loss", "perplexity", "bits_per_byte", "accuracy")}
    for name in ("tensor", "pipeline"):
        degree = {"strategy": f"{name}_parallel", f"{name}_parallel_size": 2}
        divided = training(2, **common, **degree)
        assert divided.ok, divided.errors
        measured = validations(divided)
        assert sorted(measured) == sorted(whole)
        assert measured[8] == pytest.approx(whole[8], rel=1e-4)


SPLITS = (("train", 64), ("validation", 19))


@pytest.mark.smoke
def test_a_metric_of_another_task_is_refused_at_the_start(training: Training, noise: Path) -> None:
    run = training(1, shards=noise, gradient_accumulation_steps=4, best_metric="accuracy", epochs=1, **MLP)
    assert run.ranks[0].status == 2
    assert run.ranks[0].stderr.splitlines() == [
        "error: `best_metric` `accuracy` is not a metric of the task regression",
        "help: use one of `loss`, `mse`, `rmse`, `mae`, `r2`",
    ]
