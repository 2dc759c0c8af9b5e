"""When a helper process is continued and when it is given up."""

from __future__ import annotations

import os
import signal

import pytest

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
