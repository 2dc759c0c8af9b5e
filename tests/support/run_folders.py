"""Writes the folders of runs as `worldsize run` leaves them, without running anything."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
TABLES = """
CREATE TABLE runs (run_uuid TEXT, start_time INTEGER);
CREATE TABLE tags (run_uuid TEXT, key TEXT, value TEXT);
CREATE TABLE params (run_uuid TEXT, key TEXT, value TEXT);
CREATE TABLE metrics (run_uuid TEXT, key TEXT, step INTEGER, timestamp INTEGER, value REAL, is_nan INTEGER);
CREATE TABLE latest_metrics (run_uuid TEXT, key TEXT, value REAL, is_nan INTEGER);
"""


class FolderOfRun:
    """The folder of one run; its steps follow each other, each after the one before."""

    def __init__(self, home: Path, name: str = "20260102-030405-000", pipeline: str = "digits.yml") -> None:
        self.home, self.root = home, home / "runs" / name
        self.root.mkdir(parents=True)
        self.pipeline = pipeline
        self.seconds = 0.0
        self.steps: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []

    def say(self, event: str, after: float = 0.0, **more: Any) -> None:
        """Add an event, some seconds after the one before."""
        self.seconds += after
        time = (BEGAN + timedelta(seconds=self.seconds)).isoformat(timespec="milliseconds")
        self.events.append({"time": time, "event": event, **more})

    def step(
        self,
        name: str,
        state: str = "succeeded",
        *,
        seconds: float = 2.0,
        processes: int = 1,
        parameters: Mapping[str, str] | None = None,
        reason: str | None = None,
        last_lines: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> Path:
        """Add a step that needs the one before; return its folder."""
        self.steps[name] = {"needs": list(self.steps)[-1:], "parameters": dict(parameters or {})}
        folder = self.root / "steps" / name
        folder.mkdir(parents=True)
        named = [{"name": f"rank-{rank}"} for rank in range(processes)]
        self.say("step_started", 0.1, step=name, attempt=1, processes=named)
        for rank in range(processes):
            status = 1 if reason and rank == 0 else 0
            after = seconds / processes
            self.say("process_ended", after, step=name, process=f"rank-{rank}", status=status)
        ended = {"state": state, "seconds": seconds, "reason": reason, "last_lines": list(last_lines)}
        self.say("step_ended", step=name, **ended, warnings=list(warnings))
        return folder

    def finish(self, state: str = "succeeded", *, ended: bool = True, **request: Any) -> Path:
        """Write the run; return its folder."""
        started = {"run": self.root.name, "pipeline": self.pipeline, "steps": list(self.steps)}
        first = {"time": BEGAN.isoformat(), "event": "run_started", **started}
        if ended:
            self.say("run_ended", 0.1, state=state, seconds=round(self.seconds, 3))
        lines = [json.dumps(each) for each in (first, *self.events)]
        (self.root / "events.jsonl").write_text("\n".join(lines) + "\n")
        document = {"version": 1, "target": self.pipeline, "options": {}, "steps": self.steps, **request}
        (self.root / "run.json").write_text(json.dumps(document))
        return self.root


def report_progress(folder: Path, steps: int, *, ranks: int = 2, slow: int = 1) -> None:
    """Write the reports of a training in which one rank computes half as long again."""
    began = BEGAN.timestamp()
    lines = []
    for step in range(1, steps + 1):
        record: dict[str, Any] = {
            "step": step,
            "total_steps": steps,
            "loss": 2.0 / step,
            "learning_rate": 0.1,
        }
        record |= {"samples_per_second": 100.0 + step, "validation_accuracy": round(1 - 1 / (step + 1), 3)}
        record |= {"trained_seconds": step * 0.2, "time": began + step * 0.02}
        record["computed_seconds"] = [step * (0.15 if rank == slow else 0.1) for rank in range(ranks)]
        lines.append(json.dumps(record))
    (folder / "progress.jsonl").write_text("\n".join(lines) + "\n")


def track(
    home: Path, run: str, step: str, curves: Mapping[str, Sequence[float]], parameters: Mapping[str, str] = {}
) -> None:
    """Add the MLflow run of a step to a database with the columns that reports read."""
    path = home / "mlflow.db"
    is_new = not path.exists()
    with sqlite3.connect(path) as connection:
        if is_new:
            connection.executescript(TABLES)
        run_id = f"{run}-{step}"
        connection.execute("INSERT INTO runs VALUES (?, 0)", (run_id,))
        tags = {"worldsize.run": run, "worldsize.step": step, "mlflow.source.git.commit": "c0ffee"}
        connection.executemany(
            "INSERT INTO tags VALUES (?, ?, ?)", [(run_id, *each) for each in tags.items()]
        )
        rows = [(run_id, *each) for each in parameters.items()]
        connection.executemany("INSERT INTO params VALUES (?, ?, ?)", rows)
        for name, values in curves.items():
            points = [(run_id, name, at, at, value, 0) for at, value in enumerate(values)]
            connection.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", points)
            connection.execute("INSERT INTO latest_metrics VALUES (?, ?, ?, 0)", (run_id, name, values[-1]))
    connection.close()
