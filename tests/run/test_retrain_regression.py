"""Weeks of a small regression by `worldsize retrain`, with the real trainer, comparison and registry."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]

SPEC = """\
name: sales
compute: {cpu: {target: azureml:cpu-cluster, instance_type: Standard_D2s_v5, max_instances: 1}}
inputs:
  sales: {type: uri_folder, path: ./feed}
steps:
  shard:
    uses: shard_data
    with: {data: "${{parent.inputs.sales}}", label: y, task: regression}
    split: {time: day, validation: 0.1, test: 0.2}
  train:
    uses: train_ddp
    process_count_per_instance: 1
    with: {model: mlp, epochs: 8}
    scale: {reference: {batch_size: 16, learning_rate: 0.003}}
  evaluate: {uses: evaluate}
  register:
    uses: register
    with: {model_name: sales}
    when: {r2: ">= 0.5"}
retrain:
  promote: {metric: rmse, minimum_rows: 50}
"""


def add_week(folder: Path, week: int, rows: int, *, broken: bool = False) -> None:
    """A file of the feed; in a broken week the labels are anything."""
    chance = random.Random(week)
    lines = []
    for row in range(rows):
        first, second = chance.random(), chance.random()
        label = chance.uniform(-1, 3) if broken else 3 * first - second + chance.gauss(0, 0.1)
        lines.append(f"{7 * (week + row / rows):.4f},{first:.4f},{second:.4f},{label:.4f}\n")
    (folder / "feed").mkdir(exist_ok=True)
    (folder / "feed" / f"week{week}.csv").write_text("day,a,b,y\n" + "".join(lines))


def test_four_weeks(tmp_path: Path) -> None:
    def look() -> dict[str, Any]:
        words = [sys.executable, "-m", "worldsize", "retrain", "spec.yml", "--json"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    (tmp_path / "spec.yml").write_text(SPEC)
    add_week(tmp_path, 1, 300)
    first = look()
    assert (first["action"], first["champion"], first["model"]) == ("promote", None, "sales")
    quiet = look()
    assert (quiet["action"], quiet["champion"]) == ("none", {"version": "1"})
    add_week(tmp_path, 2, 900)
    second = look()
    assert second["action"] in ("promote", "keep")
    assert second["champion"]["version"] == "1"
    difference = second["difference"]
    assert difference["rows"] > 50
    assert (second["action"] == "promote") is (difference["value"] > 0.84 * difference["standard_error"])
    add_week(tmp_path, 3, 1200, broken=True)
    broken = look()  # the newest rows, which judge both models, are broken too: the floor keeps them out
    assert broken["action"] == "keep"
    assert "r2" in broken["reason"]
    assert look()["champion"] == {"version": "2" if second["action"] == "promote" else "1"}
