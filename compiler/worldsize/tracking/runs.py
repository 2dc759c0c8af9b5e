"""The runs in MLflow's database: reads what they have logged, and makes those whose ids are chosen."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from worldsize.tracking.database import open_to_write, query


def find_steps(home: Path, run: str) -> dict[str, str]:
    """The newest run in MLflow of each step of a run, by the name of the step."""
    text = (
        "SELECT steps.value AS step, runs.run_uuid AS id FROM runs"
        " JOIN tags AS ours ON ours.run_uuid = runs.run_uuid"
        " AND ours.key = 'worldsize.run' AND ours.value = ?"
        " JOIN tags AS steps ON steps.run_uuid = runs.run_uuid AND steps.key = 'worldsize.step'"
        " ORDER BY runs.start_time"
    )
    return {str(row["step"]): str(row["id"]) for row in query(home, text, run)}


def read_shared_tags(home: Path, run: str) -> dict[str, str]:
    """The tags that all MLflow runs of a run bear, such as the commit; empty if it is not tracked."""
    text = (
        "SELECT tags.key, tags.value FROM tags JOIN tags AS ours ON ours.run_uuid = tags.run_uuid"
        " AND ours.key = 'worldsize.run' AND ours.value = ?"
    )
    return {str(row["key"]): str(row["value"]) for row in query(home, text, run)}


def read_curves(home: Path, run: str) -> dict[str, Sequence[tuple[float, float]]]:
    """The steps and values of all metrics of a run; what a restarted training logged again counts once."""
    text = (
        "SELECT key, step, value FROM metrics WHERE run_uuid = ? AND is_nan = 0 ORDER BY key, step, timestamp"
    )
    curves: dict[str, dict[float, float]] = {}
    for row in query(home, text, run):
        curves.setdefault(row["key"], {})[float(row["step"])] = float(row["value"])
    return {name: list(points.items()) for name, points in curves.items()}


def read_latest_metrics(home: Path, run: str) -> dict[str, float]:
    """The last value of each metric of a run; it may be NaN, and infinities are the largest numbers."""
    rows = query(home, "SELECT key, value, is_nan FROM latest_metrics WHERE run_uuid = ? ORDER BY key", run)
    return {row["key"]: float("nan") if row["is_nan"] else float(row["value"]) for row in rows}


def read_params(home: Path, run: str) -> dict[str, str]:
    """The parameters of a run."""
    return dict(map(tuple, query(home, "SELECT key, value FROM params WHERE run_uuid = ? ORDER BY key", run)))


def read_tags(home: Path, run: str) -> dict[str, str]:
    """The tags of a run."""
    return dict(map(tuple, query(home, "SELECT key, value FROM tags WHERE run_uuid = ? ORDER BY key", run)))


def artifact_uri(home: Path, run: str) -> str | None:
    """Where the artifacts of a run or of a logged model are, as MLflow has stored it."""
    for text in (
        "SELECT artifact_uri FROM runs WHERE run_uuid = ?",
        "SELECT artifact_location FROM logged_models WHERE model_id = ?",
    ):
        for row in query(home, text, run):
            return str(row[0])
    return None


def create_run(
    home: Path, run: str, name: str, tags: Mapping[str, str], *, experiment: str, artifacts: str, time: int
) -> bool:
    """Create a run with an id that MLflow's own calls cannot give it; False if it exists.

    Args:
        home: Where the database is.
        run: The id.
        name: Of the run.
        tags: Of the run.
        experiment: The id of its experiment.
        artifacts: The URI of the folder for its artifacts.
        time: When it started, in milliseconds since 1970.
    """
    try:
        with open_to_write(home) as connection:
            connection.execute(
                "INSERT INTO runs (run_uuid, name, artifact_uri, experiment_id, user_id, start_time,"
                " source_type, source_name, source_version, entry_point_name, status, lifecycle_stage)"
                " VALUES (?, ?, ?, ?, ?, ?, 'UNKNOWN', '', '', '', 'RUNNING', 'active')",
                (run, name, artifacts, int(experiment), tags.get("mlflow.user", "unknown"), time),
            )
            connection.executemany(
                "INSERT INTO tags (run_uuid, key, value) VALUES (?, ?, ?)",
                [(run, key, value) for key, value in {**tags, "mlflow.runName": name}.items()],
            )
    except sqlite3.IntegrityError:
        return False
    return True
