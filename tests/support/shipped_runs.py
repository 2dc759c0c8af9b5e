"""Runs a shipped pipeline as a user does, with changes that make it small."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

PIPELINES = Path(__file__).parents[2] / "pipelines"


@dataclass
class Shipped:
    """What a shipped pipeline has printed, the folder of its runs and of MLflow, its spec, and its run."""

    output: str
    home: Path
    spec: Path
    newest: Path

    @property
    def folder(self) -> Path:
        """The folder in which it was run."""
        return self.home.parent

    @property
    def metrics(self) -> dict[str, Any]:
        """What the step `evaluate` or `score` has measured."""
        (path,) = self.newest.glob("steps/*/outputs/metrics/metrics.json")
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content


def run_shipped(
    folder: Path, name: str, processes: int = 2, steps: tuple[str, ...] = (), **changes: Any
) -> Shipped:
    """Run a shipped pipeline in new processes, which must go well and leave nothing behind.

    Args:
        folder: where the runs are.
        name: of the pipeline.
        processes: of every distributed step.
        steps: those that run, all of them if it is empty.
        changes: by step, what it has instead.
    """
    psutil = pytest.importorskip("psutil")
    path, home = PIPELINES / f"{name}.yml", folder / "home"
    if steps or changes:
        path = write_changed(path, folder, steps, changes)
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    command = [sys.executable, "-m", "worldsize", "run", path, "--runs-dir", home]
    done = subprocess.run(
        [*command, "--processes", str(processes)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(home) in str(each.info)]
    return Shipped(done.stdout + done.stderr, home, path, max((home / "runs").iterdir()))


def write_changed(path: Path, folder: Path, steps: tuple[str, ...], changes: dict[str, Any]) -> Path:
    """Write a spec with changed steps into a folder beside what the spec reads."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    spec["steps"] = {step: spec["steps"][step] for step in steps or spec["steps"]}
    for step, change in changes.items():
        for key, value in change.items():
            old = spec["steps"][step].get(key)
            spec["steps"][step][key] = {**old, **value} if isinstance(old, dict) else value
    for beside in (entry for entry in path.parent.iterdir() if entry.is_dir()):
        link = folder / beside.name
        if f"./{beside.name}" in path.read_text(encoding="utf-8") and not link.exists():
            shutil.copytree(beside, link, ignore=shutil.ignore_patterns("__pycache__"))
    changed = folder / path.name
    changed.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return changed


def read_losses(home: Path) -> list[dict[int, float]]:
    """The loss of every step of each training, as its rank 0 logged it to MLflow."""
    with contextlib.closing(sqlite3.connect(home / "mlflow.db")) as database:
        rows = database.execute("SELECT run_uuid, step, value FROM metrics WHERE key = 'loss'").fetchall()
    curves: dict[str, dict[int, float]] = defaultdict(dict)
    for run, step, value in rows:
        curves[run][step] = value
    return [curve for curve in curves.values() if len(curve) > 1]  # evaluating logs one loss
