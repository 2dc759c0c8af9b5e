"""Reads runs from MLflow's database, without MLflow and without its server.

The tables are those of MLflow 3 (``mlflow/store/tracking/dbmodels/models.py``); a test holds them against the
installed version.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

from worldsize.base import untrusted
from worldsize.serving.home import Home


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One value of a metric."""

    step: int
    time: int  # milliseconds since 1970
    value: float  # may be NaN or infinite


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as MLflow shows it in a list."""

    id: str
    name: str
    experiment: str  # name
    status: str  # RUNNING, FINISHED, FAILED, KILLED or SCHEDULED
    started: int | None  # milliseconds since 1970
    ended: int | None


@contextlib.contextmanager
def open_tracking(home: Home) -> Iterator[sqlite3.Connection | None]:
    """A connection that only reads; None before the first run, or with a warning where there is no file."""
    there = False
    with untrusted.passed_over():
        untrusted.check_file(home.tracking_database)  # SQLite would wait for a pipe
        there = home.tracking_database.exists()
    if not there:
        yield None
        return
    uri = f"file:{quote(str(home.tracking_database.absolute()))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=10.0)
    connection.row_factory = sqlite3.Row
    try:
        yield connection
    finally:
        connection.close()


def read_metrics(home: Home, run: str) -> dict[str, list[MetricPoint]]:
    """The values of all metrics of a run, by metric, in the order of their steps.

    Of a metric with more than 10,000 some 5,000 are read, evenly spaced, and the last.
    """
    query = (
        "SELECT * FROM (SELECT key, step, timestamp, value, is_nan,"
        " ROW_NUMBER() OVER (PARTITION BY key ORDER BY step, timestamp) AS number,"
        " COUNT(*) OVER (PARTITION BY key) AS count FROM metrics WHERE run_uuid = ?)"
        " WHERE (number - 1) % MAX(1, count / 5000) = 0 OR number = count"
        " ORDER BY key, step, timestamp"
    )
    found: dict[str, list[MetricPoint]] = {}
    for row in _rows(home, query, run):
        value = float("nan") if row["is_nan"] else row["value"]
        found.setdefault(row["key"], []).append(MetricPoint(row["step"], row["timestamp"], value))
    return found


def read_latest_metrics(home: Home, run: str) -> dict[str, float]:
    """The last value of each metric of a run."""
    rows = _rows(home, "SELECT key, value, is_nan FROM latest_metrics WHERE run_uuid = ? ORDER BY key", run)
    return {row["key"]: float("nan") if row["is_nan"] else row["value"] for row in rows}


def read_params(home: Home, run: str) -> dict[str, str]:
    """The parameters of a run."""
    rows = _rows(home, "SELECT key, value FROM params WHERE run_uuid = ? ORDER BY key", run)
    return {row["key"]: row["value"] for row in rows}


def read_tags(home: Home, run: str) -> dict[str, str]:
    """The tags of a run."""
    rows = _rows(home, "SELECT key, value FROM tags WHERE run_uuid = ? ORDER BY key", run)
    return {row["key"]: row["value"] for row in rows}


def read_run(home: Home, run: str) -> TrackedRun | None:
    """A run, or None."""
    query = (
        "SELECT runs.run_uuid, runs.name, experiments.name AS experiment,"
        " runs.status, runs.start_time, runs.end_time"
        " FROM runs JOIN experiments USING (experiment_id) WHERE runs.run_uuid = ?"
    )
    for row in _rows(home, query, run):
        return TrackedRun(
            row["run_uuid"], row["name"], row["experiment"], row["status"], row["start_time"], row["end_time"]
        )
    return None


def artifact_uri(home: Home, run: str) -> str | None:
    """Where the artifacts of a run or of a logged model are, as MLflow has stored it."""
    for query in (
        "SELECT artifact_uri FROM runs WHERE run_uuid = ?",
        "SELECT artifact_location FROM logged_models WHERE model_id = ?",
    ):
        for row in _rows(home, query, run):
            return str(row[0])
    return None


def _rows(home: Home, query: str, run: str) -> list[sqlite3.Row]:
    """The rows of one run; none before MLflow has made the table."""
    with open_tracking(home) as connection:
        if connection is None:
            return []
        try:
            return connection.execute(query, (run,)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
