"""Processes and folders that a step holds: when a helper is given up, and what dead runs leave behind."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from worldsize.running.launch.reserve import LOCK, remove_abandoned_folders, scratch_folder
from worldsize.running.launch.supervisor import CONTINUE_SECONDS, LOST_SECONDS, LivenessTimer


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid, number)))
    return found


def test_a_silent_process_is_continued_and_then_given_up(sent: list[tuple[int, int]]) -> None:
    now = 0.0
    silence = LivenessTimer(lambda: now)
    while now + 0.5 < CONTINUE_SECONDS:
        now += 0.5
        assert not silence.has_expired(7)
    assert sent == []
    now += 0.5
    assert not silence.has_expired(7)
    assert sent == [(7, signal.SIGCONT)]
    silence.reset()
    while silence.seconds + 0.5 < LOST_SECONDS:
        now += 0.5
        assert not silence.has_expired(7)
    now += 0.5
    assert silence.has_expired(7)


def test_time_in_which_the_runner_itself_was_stopped_does_not_count(sent: list[tuple[int, int]]) -> None:
    now = 0.0
    silence = LivenessTimer(lambda: now)
    now = 3600.0
    assert not silence.has_expired(7)
    assert silence.seconds == 1.0
    assert sent == []


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
