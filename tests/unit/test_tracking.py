"""`worldsize.tracking`: MLflow's database, also one that another version of MLflow has written."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from worldsize.running.record import tracker
from worldsize.tracking import database, runs
from worldsize.tracking.database import SchemaError, check_schema

MIGRATIONS = {"one": None, "two": "one", "three": "two"}


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An MLflow with three migrations."""
    folder = tmp_path / "mlflow" / "store" / "db_migrations" / "versions"
    folder.mkdir(parents=True)
    for revision, down in MIGRATIONS.items():
        below = f'"{down}"' if down else "None"
        text = f'"""Revises: {down}"""\n\nrevision = "{revision}"\ndown_revision = {below}\n'
        (folder / f"{revision}_adds_a_table.py").write_text(text)
    monkeypatch.setattr(database, "find_mlflow", lambda: tmp_path / "mlflow")


def write_database(path: Path, revision: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
    return path


def test_that_of_the_installed_version_is_opened(tmp_path: Path) -> None:
    check_schema(tmp_path / "absent.db")
    check_schema(write_database(tmp_path / "mlflow.db", "three"))


@pytest.mark.parametrize(
    ("revision", "reason"),
    [
        ("two", "an older MLflow wrote `{0}`: `mlflow db upgrade sqlite:///{0}` converts it"),
        ("four", "a newer MLflow than the installed one wrote `{0}`: install that, or use another --home"),
    ],
)
def test_another_is_refused_in_one_sentence(tmp_path: Path, revision: str, reason: str) -> None:
    database = write_database(tmp_path / "mlflow.db", revision)
    with pytest.raises(SchemaError) as caught:
        check_schema(database)
    assert tracker.reason(caught.value) == reason.format(database)


def test_what_is_no_database_or_has_no_schema_yet(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database")
    with pytest.raises(sqlite3.DatabaseError) as caught:
        check_schema(tmp_path / "text.db")
    assert tracker.reason(caught.value) == "its database: file is not a database"
    (tmp_path / "empty.db").touch()
    check_schema(tmp_path / "empty.db")


TABLES = """
CREATE TABLE runs (run_uuid TEXT PRIMARY KEY, name, source_type, source_name, entry_point_name, user_id,
    status, start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id);
CREATE TABLE tags (key, value, run_uuid, PRIMARY KEY (key, run_uuid));
CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan);
"""


def create(home: Path, run: str, step: str, time: int) -> bool:
    tags = {"worldsize.run": "digits", "worldsize.step": step, "commit": "abc"}
    return runs.create_run(home, run, step, tags, experiment="1", artifacts="file:///a", time=time)


def test_the_newest_run_of_a_step_counts(tmp_path: Path) -> None:
    assert runs.find_steps(tmp_path, "digits") == {}
    with contextlib.closing(sqlite3.connect(tmp_path / database.DATABASE)) as connection:
        assert runs.find_steps(tmp_path, "digits") == {}  # no table yet
        connection.executescript(TABLES)
    assert create(tmp_path, "b", "train", 2)
    assert create(tmp_path, "a", "train", 1)
    assert not create(tmp_path, "a", "evaluate", 3)  # which leaves the run as it is
    assert runs.find_steps(tmp_path, "digits") == {"train": "b"}
    assert runs.read_shared_tags(tmp_path, "digits")["commit"] == "abc"
    assert runs.read_tags(tmp_path, "a")["mlflow.runName"] == "train"
    assert runs.artifact_uri(tmp_path, "a") == "file:///a"


def test_a_step_that_was_logged_again_counts_once(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / database.DATABASE)) as connection, connection:
        connection.executescript(TABLES)
        rows = [(4.0, 1, 1, 0), (3.0, 2, 2, 0), (2.5, 3, 2, 0), (0.0, 4, 3, 1)]
        connection.executemany("INSERT INTO metrics VALUES ('loss', ?, ?, 'a', ?, ?)", rows)
    assert runs.read_curves(tmp_path, "a") == {"loss": [(1.0, 4.0), (2.0, 2.5)]}


def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    (tmp_path / database.DATABASE).write_bytes(bytes(range(256)) * 8)
    with pytest.raises(sqlite3.DatabaseError):
        runs.read_params(tmp_path, "a")


KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA cache_size = 1")  # changed pages go to the file before the end
connection.executemany("UPDATE tags SET value = ?", [("half",)] * 2)
connection.executemany("INSERT INTO tags VALUES (?, ?, 'r')", [(str(n), "x" * 4000) for n in range(50)])
os._exit(9)
"""


def test_what_a_killed_writer_left_half_done_is_undone(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(TABLES)
        connection.execute("INSERT INTO tags VALUES ('a', 'whole', 'r')")
    assert subprocess.run([sys.executable, "-c", KILLED, str(database)], check=False).returncode == 9
    assert (tmp_path / "mlflow.db-journal").exists()
    assert runs.read_tags(tmp_path, "r") == {"a": "whole"}
