"""A feed of weekly files with a season, drift and faults, and the pipelines that are retrained on it.

``target`` is `sales`, a regression, or `churn`, a classification; the truth of both moves with the week.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from worldsize.running.record.models import HomeRegistry

FIRST = datetime(2025, 11, 10, 3, tzinfo=timezone.utc)  # the Monday of week 0
HISTORY = 8  # weeks that are there before the first look
SPEC = """\
name: {name}
compute: {{cpu: {{target: azureml:cpu-cluster, instance_type: Standard_D2s_v5, max_instances: 1}}}}
inputs:
  feed: {{type: uri_folder, path: ./feed}}
steps:
  shard:
    uses: shard_data
    with: {{data: "${{{{parent.inputs.feed}}}}", label: y, task: {task}}}
    split: {{time: day, validation: 0.1, test: 0.125}}
  train:
    uses: train_ddp
    process_count_per_instance: 1
    with: {{model: mlp, epochs: {epochs}}}
    scale: {{reference: {{batch_size: 16, learning_rate: 0.005}}}}
  evaluate: {{uses: evaluate}}
  register:
    uses: register
    with: {{model_name: {name}}}
    when: {{{floor}}}
schedule: {{cron: "0 3 * * 1"}}
retrain:
  data: {{feed: {{window: 56d, by: file_name, minimum_new_rows: 20}}}}
  promote: {{metric: {metric}, minimum_rows: 25}}
  keep: {{models: {models}}}
"""
TARGETS = {
    "sales": {"task": "regression", "metric": "rmse", "floor": 'r2: ">= 0.5"'},
    "churn": {"task": "classification", "metric": "accuracy", "floor": 'accuracy: ">= 0.7"'},
}


BROKEN, FLIPPED, QUIET = (3, 20, 33), (11, 27), range(40, 44)  # weeks of a year that are not as the others


def make_rows(
    target: str, week: int, rows: int, *, fault: str = ""
) -> list[tuple[float, float, float, float]]:
    """The day, two features and the label of the rows of a week.

    ``broken`` labels are anything, and ``flipped`` ones the contrary of what they should be.
    """
    chance = random.Random(week)
    made = []
    for row in range(rows):
        first, second, day = chance.random(), chance.random(), 7 * (week + row / rows)
        season = 0.4 * math.sin(2 * math.pi * day / 365)
        label = (3 + 0.03 * week) * first - second + season + chance.gauss(0, 0.15)
        if target == "churn":
            is_one = (label > 1.0 + 0.015 * week) is not (fault == "flipped")
            label = float(chance.random() < 0.5 if fault == "broken" else is_one)
        elif fault:
            label = chance.uniform(-4, 6) if fault == "broken" else 2 - label
        made.append((day, first, second, label))
    return made


class Feed:
    """A project in a folder with its feed, and looks at it in the time of the feed."""

    def __init__(
        self, folder: Path, target: str, *, rows: int = 60, epochs: int = 12, models: int = 4
    ) -> None:
        self.folder, self.target, self.rows = folder, target, rows
        (folder / "feed").mkdir(parents=True, exist_ok=True)
        spec = SPEC.format(name=target, epochs=epochs, models=models, **TARGETS[target])
        (folder / "spec.yml").write_text(spec)
        for week in range(-HISTORY, 0):
            self.add(week)

    def add(self, week: int, *, fault: str = "") -> None:
        """Write the file of the week before a Monday."""
        lines = [
            f"{day:.4f},{first:.4f},{second:.4f},{self._label(label)}\n"
            for day, first, second, label in make_rows(self.target, week, self.rows, fault=fault)
        ]
        self._find_file(week).write_text("day,a,b,y\n" + "".join(lines))

    def _label(self, value: float) -> str:
        return ("yes" if value else "no") if self.target == "churn" else f"{value:.4f}"

    def remove(self, week: int) -> None:
        """Take a file back, as somebody does who has seen its fault."""
        self._find_file(week).unlink()

    def _find_file(self, week: int) -> Path:
        return self.folder / "feed" / f"{FIRST + timedelta(days=7 * week - 1):%Y-%m-%d}.csv"

    def start(self, week: int, *, hours: int = 0, session: bool = False) -> subprocess.Popen[str]:
        """Start the look of a Monday, or one hours later, in a session of its own or not."""
        now = f"{FIRST + timedelta(days=7 * week, hours=hours):%Y-%m-%dT%H:%MZ}"
        words = [sys.executable, "-m", "worldsize", "retrain", "spec.yml", "--now", now, "--json"]
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=session,
        )

    def look(self, week: int, *, hours: int = 0, seconds: float = 280) -> dict[str, Any]:
        """The answer of a look; it is that of a decision, whichever."""
        process = self.start(week, hours=hours)
        output, errors = process.communicate(timeout=seconds)
        assert process.returncode == 0, errors
        answer: dict[str, Any] = json.loads(output)
        return answer

    @property
    def home(self) -> Path:
        """Where its runs are."""
        return self.folder / ".worldsize"


def list_champions(feed: Feed) -> list[str]:
    """The versions that a reader would take for the champion; each of them loads."""
    import mlflow

    registry = HomeRegistry(feed.home)
    versions = registry.versions(feed.target)
    champions = [version.version for version in versions if version.tags.get("champion") == "true"]
    for version in champions:
        files = registry.find_files(feed.target, version)
        assert files is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MLflow's, of type hints
            mlflow.pyfunc.load_model(str(files))
    return champions
