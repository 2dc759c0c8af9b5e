"""Folders that a step holds while it runs, and those of dead runs."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path

import pytest

from worldsize.running.launch.reserve import LOCK, remove_abandoned_folders, scratch_folder

PREFIX = "worldsize-test-"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folders_of_dead_runs_are_swept_and_nothing_else(temporary: Path) -> None:
    left = temporary / f"{PREFIX}dead"
    (left / "node0").mkdir(parents=True)
    (left / LOCK).touch()
    half_made = temporary / f"{PREFIX}old"
    half_made.mkdir()
    os.utime(half_made, (time.time() - 3600,) * 2)
    just_made = temporary / f"{PREFIX}new"
    just_made.mkdir()
    somebody = temporary / "somebody"
    somebody.mkdir()
    link = temporary / f"{PREFIX}link"
    link.symlink_to(somebody)
    assert set(remove_abandoned_folders(PREFIX)) == {left, half_made}
    with scratch_folder(PREFIX) as own:
        assert not left.exists()
        assert not half_made.exists()
        assert just_made.exists()
        assert link.is_symlink()
        assert remove_abandoned_folders(PREFIX) == []  # ours is locked
        assert (own / LOCK).exists()
    assert not own.exists()
    assert somebody.exists()


def test_a_folder_that_another_run_holds_stays(temporary: Path) -> None:
    other = temporary / f"{PREFIX}other"
    other.mkdir()
    with (other / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert remove_abandoned_folders(PREFIX) == []
    assert remove_abandoned_folders(PREFIX) == [other]
