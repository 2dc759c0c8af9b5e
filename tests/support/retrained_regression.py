"""A small regression that is retrained, and the weeks of its feed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def look_in(folder: Path, *options: str, status: int = 0) -> dict[str, Any]:
    """The answer of a look."""
    words = [sys.executable, "-m", "worldsize", "retrain", "spec.yml", "--json", *options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
