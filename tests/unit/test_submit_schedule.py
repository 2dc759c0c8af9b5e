"""`worldsize submit --schedule` says when the schedule fires next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worldsize.cli.submit import Request, _report_schedule
from worldsize.remote.names import WorkspaceNames

WEEKLY = {"triggerType": "Cron", "expression": "0 3 * * 1", "timeZone": "W. Europe Standard Time"}
AT_ONCE = "  without a start time, a new schedule starts its first job at once\n"


class Workspace:
    """A workspace with one schedule."""

    names = WorkspaceNames("id", "group", "mine")

    def __init__(self, trigger: dict[str, Any]) -> None:
        self._trigger = trigger

    def manage(self, path: str) -> Any:
        assert path == "/schedules/weekly"
        return {"properties": {"trigger": self._trigger}}


def report(trigger: dict[str, Any], *, as_json: bool = False) -> None:
    request = Request(Path("d.yml"), None, (), None, None, True, False, False, True, None, False, as_json)
    _report_schedule(Workspace(trigger), "weekly", request)  # type: ignore[arg-type]


def test_the_next_time_is_on_the_clock_of_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    report(WEEKLY)
    shown = capsys.readouterr().out
    assert AT_ONCE in shown
    assert "  next  Mon " in shown
    assert " 03:00 W. Europe Standard Time\n" in shown


def test_a_start_time_is_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    report(
        {"triggerType": "Recurrence", "frequency": "Day", "interval": 2, "startTime": "2999-01-01T05:00:00"}
    )
    assert capsys.readouterr().out.endswith("  next  Tue 2999-01-01 05:00 UTC\n")


def test_the_next_time_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    report(WEEKLY, as_json=True)
    assert "T03:00:00+0" in json.loads(capsys.readouterr().out)["next"]
    report({**WEEKLY, "timeZone": "Nowhere"}, as_json=True)
    assert json.loads(capsys.readouterr().out)["next"] is None
