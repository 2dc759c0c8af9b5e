"""Eight firings of a regression and of a classifier on a feed with a season, drift and faults, for real."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from retrained_feed import Feed, list_champions

pytestmark = [pytest.mark.run, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(("target", "fault"), [("sales", "broken"), ("churn", "flipped")])
def test_eight_firings(tmp_path: Path, target: str, fault: str) -> None:
    """New weeks train, quiet ones cost nothing, and a week of wrong labels promotes nobody."""
    feed = Feed(tmp_path, target)
    answers: list[dict[str, Any]] = [feed.look(0)]
    feed.add(0)
    answers.append(feed.look(1))
    feed.add(1, fault=fault)
    answers.append(feed.look(2))
    assert answers[-1]["action"] == "keep", answers[-1]
    for week in (3, 4):  # nothing comes
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        answers.append(feed.look(week))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert answers[-1]["action"] == "none"
        assert ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime < 5
    feed.remove(1)
    for week in (4, 5):
        feed.add(week)
        answers.append(feed.look(week + 1))
    answers.append(feed.look(6))
    actions = [answer["action"] for answer in answers]
    assert actions[0] == "promote", answers[0]
    assert actions[3:5] == ["none", "none"]
    assert actions[7] == "none"
    assert {actions[1], actions[5], actions[6]} <= {"promote", "keep"}
    (champion,) = list_champions(feed)
    assert champion == answers[-1]["champion"]["version"]
    words = [sys.executable, "-m", "worldsize", "report", "--retrain", target]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=60)
    page = (feed.home / "retrain" / target / "report.html").read_text()
    assert page.count("<polyline") == 1
    assert page.count('class="state ') == 7  # of looks in a row that say the same, one
