"""What a training has logged to its own MLflow database."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path


def read_metric(database: Path, name: str) -> dict[int, float]:
    """The values of a metric by step."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        found = connection.execute("select step, value from metrics where key = ?", [name]).fetchall()
    return dict(found)
