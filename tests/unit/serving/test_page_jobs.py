"""What the page reads of jobs: the list and its filter, states in words, graphs and their layout."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from worldsize.running.record.history import RunRecord, StepRecord
from worldsize.serving.database import Database
from worldsize.serving.jobs.records import JobRecord, insert
from worldsize.serving.page.queries.jobs import (
    PAGE_SIZE,
    JobFilter,
    find_jobs,
    get_ancestors,
    list_choices,
    read_filter,
)
from worldsize.serving.page.queries.steps import read_graph
from worldsize.serving.page.routes import routes
from worldsize.serving.page.views import frame
from worldsize.serving.page.views.frame import trigger_words


def job(name: str, **more: Any) -> JobRecord:
    values: dict[str, Any] = {
        "type": "Command",
        "display_name": name,
        "experiment": "Default",
        "status": "Completed",
        "properties": {},
        "root": name,
        "created": "2026-01-02T03:04:05.000000Z",
        **more,
    }
    return JobRecord(name=name, **values)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(tmp_path / "workspace.db")
    insert(database, job("old", experiment="digits"))
    insert(database, job("wide", type="Pipeline", status="Failed", display_name="100% of Ünits"))
    insert(database, job("wide-train", parent="wide", root="wide", step="train"))
    insert(database, job("wide-train-0", parent="wide-train", root="wide", step="train.0"))
    insert(database, job("hidden", archived=True))
    insert(database, job("fired", schedule="nightly", status="Running"))
    return database


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (JobFilter(), ["fired", "wide", "old"]),
        (JobFilter(text="DIG"), ["old"]),
        (JobFilter(text="100%"), ["wide"]),
        (JobFilter(text="100_"), []),
        (JobFilter(text="' OR 1 = 1 --"), []),
        (JobFilter(text="nightly"), ["fired"]),
        (JobFilter(status="Failed"), ["wide"]),
        (JobFilter(type="Pipeline", experiment="Default"), ["wide"]),
        (JobFilter(type="Pipeline", experiment="digits"), []),
        (JobFilter(schedule="nightly"), ["fired"]),
    ],
)
def test_jobs_are_filtered(database: Database, wanted: JobFilter, found: list[str]) -> None:
    page = find_jobs(database, wanted)
    assert [each.name for each in page.jobs] == found
    assert page.total == len(found)


def test_a_list_has_pages(database: Database) -> None:
    for number in range(PAGE_SIZE):
        insert(database, job(f"job-{number}"))
    first, last = find_jobs(database, JobFilter()), find_jobs(database, JobFilter(page=99))
    assert (len(first.jobs), first.pages, first.page) == (PAGE_SIZE, 2, 1)
    assert ([each.name for each in last.jobs], last.page) == (["fired", "wide", "old"], 2)


def test_a_filter_lists_what_there_is(database: Database) -> None:
    assert list_choices(database) == {
        "status": ["Completed", "Failed", "Running"],
        "experiment": ["Default", "digits"],
        "type": ["Command", "Pipeline"],
    }


@pytest.mark.parametrize(
    ("query", "page"), [({}, 1), ({"page": "3"}, 3), ({"page": "-1"}, 1), ({"page": "²"}, 1)]
)
def test_an_address_has_a_filter(query: dict[str, str], page: int) -> None:
    assert read_filter({**query, "status": "Failed"}) == JobFilter(status="Failed", page=page)


def test_a_trial_knows_what_is_above_it(database: Database) -> None:
    trial = job("wide-train-0", parent="wide-train", root="wide")
    assert [each.name for each in get_ancestors(database, trial)] == ["wide", "wide-train"]


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ({}, None),
        ({"started": "2026-01-02T03:00:00Z", "ended": "2026-01-02T03:00:01.500Z"}, 1.5),
        ({"started": "2026-01-02T03:00:00Z", "status": "Running"}, 60.0),
        ({"started": "2026-01-02T03:00:00Z", "status": "Failed"}, None),
        ({"started": "yesterday", "ended": "today"}, None),
    ],
)
def test_durations(times: dict[str, str], seconds: float | None) -> None:
    now = datetime(2026, 1, 2, 3, 1, tzinfo=timezone.utc)
    assert job("a", **times).seconds(now) == seconds


def test_states_have_words_and_tones() -> None:
    assert frame.status_words("CancelRequested") == "Cancel requested"
    assert [frame.status_tone(each) for each in ("Completed", "Failed", "Running", "Queued", "Canceled")] == [
        "good",
        "bad",
        "busy",
        "waiting",
        "quiet",
    ]
    assert frame.time_words("2026-01-02T03:04:05.678901Z") == "2026-01-02 03:04:05 UTC"


def bound(*steps: str) -> dict[str, Any]:
    values = {
        step: {"job_input_type": "uri", "uri": f"${{{{parent.jobs.{step}.outputs.x}}}}"} for step in steps
    }
    return {"type": "command", "inputs": {**values, "rate": {"value": "${{parent.inputs.rate}}"}}}


def test_a_graph_begins_with_the_body_and_follows_the_run() -> None:
    pipeline = job("p", type="Pipeline", properties={"jobs": {"a": bound(), "b": bound("a", "b", "gone")}})
    nodes = read_graph(pipeline, {}, None)
    assert [(node.name, node.needs, node.status) for node in nodes] == [
        ("a", (), "NotStarted"),
        ("b", ("a",), "NotStarted"),
    ]
    run = RunRecord(Path("p"), "running")
    run.steps = {"a": StepRecord("a", "reused"), "b": StepRecord("b", "waiting", needs=("a",))}
    nodes = read_graph(pipeline, {"b": job("child", status="Queued")}, run)
    assert [(node.status, node.reused, node.job and node.job.name) for node in nodes] == [
        ("Completed", True, None),
        ("Queued", False, "child"),
    ]


def test_an_inner_pipeline_has_its_own_steps() -> None:
    run = RunRecord(Path("p"), "running")
    run.steps = {
        name: StepRecord(name, needs=needs)
        for name, needs in {"data": (), "inner.a": ("data",), "inner.b": ("inner.a",)}.items()
    }
    nodes = read_graph(job("i", type="Pipeline", parent="p", root="p", step="inner"), {}, run)
    assert [(node.label, node.needs) for node in nodes] == [("a", ()), ("b", ("inner.a",))]


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ({"triggerType": "Cron", "expression": "0 3 * * 1"}, "cron 0 3 * * 1"),
        ({"triggerType": "Recurrence", "frequency": "Day", "interval": 1}, "every day"),
        (
            {
                "triggerType": "Recurrence",
                "frequency": "Week",
                "interval": 2,
                "schedule": {"weekDays": ["Monday", "Friday"], "hours": [3], "minutes": [5, 30]},
            },
            "every 2 weeks on Monday and Friday at 03:05 and 03:30",
        ),
        (
            {"frequency": "month", "interval": 1, "schedule": {"monthDays": [1, 15], "hours": [0]}},
            "every month on day 1 and 15 at 00:00",
        ),
    ],
)
def test_triggers_have_words(trigger: dict[str, Any], words: str) -> None:
    assert trigger_words(trigger) == words


def test_the_page_has_its_own_addresses_only() -> None:
    paths = {route.path for route in routes(None)}  # type: ignore[arg-type, attr-defined]
    assert {"/", "/jobs/{rest:path}", "/_nicegui_ws/{rest:path}"} <= paths
    assert "/{rest:path}" not in paths
