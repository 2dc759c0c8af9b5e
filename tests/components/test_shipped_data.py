"""The shipped pipelines from raw files to a registered model, and the same training in one process."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from shipped_runs import PIPELINES, Shipped, read_losses, run_shipped

pytest.importorskip("torch")
pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]
NOT_OF_THE_TWIN = ("shards", "world_size", "gradient_accumulation_steps", "planned_gpus_per_instance")


class Case(NamedTuple):
    """A shipped pipeline, what makes it small, and how it must end."""

    name: str
    model: str
    changes: dict[str, Any]
    metric: str
    least: float


def photographs(count: int, accuracy: float, **train: Any) -> dict[str, Any]:
    command = f"python draw.py --count {count} --output ${{{{outputs.photographs}}}}"
    return {
        "draw": {"command": command},
        "shard": {"with": {"image_size": 16}},
        "train": {"with": {"epochs": 6, **train}, "scale": {"rows": count * 4 // 5}},
        "register": {"when": {"accuracy": f">= {accuracy}"}},
    }


CASES = [
    Case("diabetes_ddp", "diabetes-progression", {"train": {"with": {"epochs": 4}}}, "r2", 0.3),
    Case("breast_cancer_ddp", "breast-cancer", {"train": {"with": {"epochs": 4}}}, "accuracy", 0.9),
    Case("photographs_ddp", "landscapes", photographs(320, 0.6), "accuracy", 0.6),
    Case(
        "python_source_bpe",
        "python-source-bpe",
        {
            "shard": {"with": {"vocabulary_size": 512, "validation_fraction": 0.02}},
            "train": {"with": {"epochs": 0.05, "gpt_layers": 1, "gpt_width": 32}},
            "register": {"when": {"perplexity": "< 480"}},
        },
        "perplexity",
        1,
    ),
    Case("photographs_tensorflow", "landscapes", photographs(320, 0.6), "accuracy", 0.6),
]


def train_in_one_process(training: Callable[..., Any], run: Shipped, case: Case) -> dict[int, float]:
    """The losses of the same plan in one process, on the shards that the run has written."""
    spec = yaml.safe_load((PIPELINES / f"{case.name}.yml").read_text(encoding="utf-8"))
    compiled = yaml.safe_load((run.newest / "pipeline" / "pipeline.yml").read_text(encoding="utf-8"))
    inputs = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in compiled["jobs"]["train"]["inputs"].items()
        if name not in NOT_OF_THE_TWIN
    }
    shards = run.newest / "steps" / "shard" / "outputs" / "shards"
    twin = training(1, component=spec["steps"]["train"]["uses"], shards=shards, **inputs)
    assert twin.ok, twin.errors
    losses: dict[int, float] = twin.losses
    return losses


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_raw_files_end_as_a_registered_model_by_the_same_curve_in_one_process(
    case: Case,
    tmp_path: Path,
    training: Callable[..., Any],
    warm: Callable[..., list[str]],
) -> None:
    if case.name.endswith("tensorflow") and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    run = run_shipped(tmp_path, case.name, **case.changes)
    assert f"{case.model} version 1" in run.output
    assert run.metrics[case.metric] >= case.least
    (two,) = read_losses(run.home)
    one = train_in_one_process(training, run, case)
    assert sorted(one) == sorted(two)
    for step in sorted(one)[:15]:
        assert two[step] == pytest.approx(one[step], rel=1e-3), f"step {step}"
    if case.name in ("diabetes_ddp", "breast_cancer_ddp"):
        folder = case.name.removesuffix("_ddp")
        label = yaml.safe_load((PIPELINES / f"{case.name}.yml").read_text())["steps"]["shard"]["with"][
            "label"
        ]
        table = PIPELINES / folder / f"{folder}.csv"
        code = Path(__file__).with_name("predict_raw.py")
        command = [*warm(), sys.executable, code, f"sqlite:///{run.home}/mlflow.db", case.model, table, label]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1]) >= case.least
