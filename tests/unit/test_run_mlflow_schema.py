"""Databases that another version of MLflow has written."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from worldsize.running.environments import mlflow_schema
from worldsize.running.environments.mlflow_schema import SchemaError, check_schema
from worldsize.running.record import tracker

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
    monkeypatch.setattr(mlflow_schema, "find_mlflow", lambda: tmp_path / "mlflow")


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
