"""train_tensorflow on numbers of a table: validated while it trains, stopped early, exported by column."""

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
# 4 steps an epoch, of micro-batches of 24 with any number of workers; the last block of validation is short.
PLAN = {"epochs": 4, "batch_size_per_device": 24, "global_batch_size": 48, "learning_rate": 0.05}
PLAN |= {"model": "mlp", "lr_schedule": "constant"}
COLUMNS = (
    m.Column("size", mean=(0.0,), optional=True),
    m.Column("town", "category", ("Bergen", "Oslo", "Voss")),
    m.Column("sold", "date", mean=(18_500.0, 43_200.0)),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of a table with two targets, one of them large."""
    random = np.random.default_rng(0)
    rows = 192 + 58
    coded = np.stack(
        [
            random.normal(size=rows),
            random.integers(0, 3, rows),
            random.integers(18_000, 19_000, rows),
            random.integers(0, 86_400, rows),
        ],
        axis=1,
    ).astype(np.float32)
    coded[::17, 0] = np.nan
    targets = np.nan_to_num(coded[:, :1]) * [1.0, 500.0] + coded[:, 1:2] * [2.0, 1e3] + [0.0, 1e5]
    folder = tmp_path_factory.mktemp("table")
    features = m.Features("features", "float32", (4,), columns=COLUMNS)
    splits = {"train": (coded[:192], targets[:192]), "validation": (coded[192:], targets[192:])}
    write_shards(folder, terms.REGRESSION, splits, label=m.Label(("rent", "price")), features=features)
    return folder


@pytest.fixture(scope="module")
def train(
    snapshots: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
    new_database: Callable[[Path], None],
    start_with_libraries: Callable[[str], list[str]],
    table: Path,
) -> Callable[..., Any]:
    code = tmp_path_factory.mktemp("tensorflow") / "code"
    shutil.copytree(snapshots("train_tensorflow"), code)

    def run(workers: int, **values: Any) -> Any:
        folder = tmp_path_factory.mktemp("cluster")
        new_database(folder / "mlflow.db")
        python = [*start_with_libraries("train_tensorflow"), sys.executable]
        group = Cluster(folder, code, table, {}, python)
        plan = PLAN | {"gradient_accumulation_steps": 2 // workers} | values
        ended = group.start(workers, **plan).wait()
        assert ended.ok, ended.errors
        return ended

    return run


def logged(run: Any, name: str) -> dict[int, float]:
    return read_metric(run.folder / "mlflow.db", name)


def test_regression_is_the_same_with_one_and_two_workers(
    train: Callable[..., Any], component: Callable[..., Any], table: Path, tmp_path: Path
) -> None:
    alone, group = train(1), train(2)
    assert sorted(alone.losses) == list(range(1, 17))
    assert group.losses == pytest.approx(alone.losses, rel=1e-4)
    for name in ("loss", "rmse", "mae", "r2"):
        values = logged(alone, f"validation_{name}")
        assert sorted(values) == [4, 8, 12, 16]
        assert logged(group, f"validation_{name}") == pytest.approx(values, rel=1e-5)
    assert logged(alone, "validation_loss")[16] < 0.5 * logged(alone, "validation_loss")[4]
    best = min(logged(group, "validation_loss").items(), key=lambda item: item[1])
    assert f"exporting the weights of step {best[0]}, the best: validation_loss" in group.said["worker-0"]

    # The exported model gets the columns as they were, and answers in the unit of each target.
    done = component("evaluate", model=group.folder / "model", shards=table, metrics=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "metrics.json").read_text())
    for name in ("loss", "rmse", "mae", "r2"):
        assert measured[name] == pytest.approx(logged(group, f"validation_{name}")[best[0]], rel=1e-4)
    assert measured["rmse_price"] > 10 * measured["rmse_rent"]


def test_stops_early_and_so_does_a_resumed_run(train: Callable[..., Any]) -> None:
    """No improvement is large enough, so the second validation after the first one is the last."""
    plan = {"early_stopping_patience": 2, "early_stopping_min_delta": 1e6, "best_metric": "mae"}
    whole = train(1, **plan)
    assert "stopping early after step 12: 2 validations without improvement" in whole.said["worker-0"]
    assert sorted(whole.losses) == list(range(1, 13))
    part = train(1, stop_after_steps=8, **plan)
    resumed = train(1, resume_from=part.folder / "checkpoints", **plan)
    assert sorted(resumed.losses) == [9, 10, 11, 12]
    assert logged(resumed, "validation_mae")[12] == logged(whole, "validation_mae")[12]
    cards = [
        json.loads((run.folder / "checkpoints" / "step-00000012" / "checkpoint.json").read_text())
        for run in (whole, resumed)
    ]
    assert cards[0]["validation"] == cards[1]["validation"]
    assert resumed.said["worker-0"].splitlines()[-1] == whole.said["worker-0"].splitlines()[-1]
