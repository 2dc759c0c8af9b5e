"""What the record of a run makes of names that are free text, and of a database that refuses."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from worldsize.running.record import tracker


@pytest.mark.parametrize(
    "name",
    ["../../../etc", "..", ".", "/etc/passwd", "a/../../b", "a\nb", "a\0b", "$(touch x)", "", "n" * 900],
)
def test_an_experiment_keeps_its_files_below_the_runs_folder(tmp_path: Path, name: str) -> None:
    place = tracker.artifact_folder(tmp_path, name)
    assert place.parent == tmp_path
    assert place.name not in ("", ".", "..")
    place.mkdir()


@pytest.mark.parametrize("name", ["digits", "digits-cnn 2", "Größe.v2"])
def test_ordinary_names_are_kept(tmp_path: Path, name: str) -> None:
    assert tracker.artifact_folder(tmp_path, name) == tmp_path / name


def test_of_a_database_only_what_it_says_is_shown() -> None:
    error = RuntimeError("(sqlite3.OperationalError) database or disk is full\n[SQL: CREATE TABLE ...]")
    error.orig = sqlite3.OperationalError("database or disk is full")  # type: ignore[attr-defined]
    assert tracker.reason(error) == "its database: database or disk is full"
    assert tracker.reason(ValueError("first\nsecond")) == "ValueError: first"
    assert tracker.reason(ValueError()) == "ValueError"
