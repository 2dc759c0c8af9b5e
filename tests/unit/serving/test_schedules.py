"""Schedules through the management API, and their timer: real jobs are submitted, but no queue runs them."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from management import ask_handlers

from worldsize.serving.jobs.records import JobRecord, get_job, list_in_state
from worldsize.serving.jobs.submit import submit
from worldsize.serving.schedules import fire, records
from worldsize.serving.schedules.control import HANDLERS
from worldsize.serving.workspace import Workspace

COMPONENT = {
    "name": "hello",
    "type": "command",
    "command": "echo ${{inputs.text}}",
    "environment": "azureml:curated@latest",
    "inputs": {"text": {"type": "string"}},
}
PIPELINE: dict[str, Any] = {
    "jobType": "Pipeline",
    "inputs": {
        "text": {"jobInputType": "literal", "value": "${{name}} at ${{creation_context.trigger_time}}"}
    },
    "outputs": {},
    "jobs": {},
    "settings": {"default_compute": "cpu"},
}
CRON: dict[str, Any] = {"triggerType": "Cron", "expression": "0 3 * * 1", "startTime": "2026-01-01T00:00:00"}


def request(workspace: Workspace, method: str, name: str | None = None, **rest: Any) -> tuple[int, Any]:
    """One request; its status and its document."""
    return ask_handlers(HANDLERS, workspace, method, "schedules", name, **rest)


def body(definition: Any = PIPELINE, trigger: Any = CRON, **properties: Any) -> dict[str, Any]:
    action = {"actionType": "CreateJob", "jobDefinition": definition}
    return {"properties": {"action": action, "trigger": trigger, **properties}}


def test_a_schedule_is_created_changed_and_deleted(workspace: Workspace) -> None:
    status, created = request(workspace, "PUT", "weekly", body=body(tags={"team": "a"}))
    assert status == 201
    assert created["id"].endswith("/workspaces/local/schedules/weekly")
    assert created["properties"]["provisioningState"] == "Succeeded"
    assert created["properties"]["isEnabled"] is True
    assert created["properties"]["tags"] == {"team": "a"}
    assert request(workspace, "GET", "WEEKLY") == (200, created)
    assert request(workspace, "DELETE", "weekly")[0] == 400  # only disabled ones can be
    status, disabled = request(
        workspace, "PUT", "weekly", body={"properties": {**created["properties"], "isEnabled": False}}
    )
    assert status == 200
    assert disabled["properties"]["isEnabled"] is False
    assert request(workspace, "POST", "weekly", action="trigger")[0] == 400
    assert request(workspace, "DELETE", "weekly") == (200, None)
    assert request(workspace, "DELETE", "weekly") == (204, None)
    assert request(workspace, "GET", "weekly")[0] == 404


def test_lists_show_the_enabled_by_default_and_come_in_pages(workspace: Workspace) -> None:
    for number in range(103):
        request(workspace, "PUT", f"s{number}", body=body(isEnabled=number != 1))
    status, first = request(workspace, "GET", query={"api-version": "2023-06-01-preview"})
    assert status == 200
    assert len(first["value"]) == 100
    assert "%24skip=100" in first["nextLink"]
    _, second = request(workspace, "GET", query={"$skip": "100"})
    assert [each["name"] for each in second["value"]] == ["s101", "s102"]
    assert "nextLink" not in second
    _, disabled = request(workspace, "GET", query={"listviewtype": "DisabledOnly"})
    assert [each["name"] for each in disabled["value"]] == ["s1"]
    assert request(workspace, "GET", query={"listviewtype": "Some"})[0] == 400


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("a", {}, "`properties.action.actionType` is required"),
        ("a", {"properties": []}, "must be an object"),
        ("a", body(definition={}), "jobDefinition` is required"),
        ("a", body(definition={"jobType": "Sweep"}), "not jobs of type `Sweep`"),
        ("a", body(definition={"jobType": 3}), "must be text"),
        ("a", body(definition={**PIPELINE, "inputs": []}), "must be an object"),
        ("a", body(definition={"jobType": "Pipeline", "sourceJobId": "azureml:gone"}), "`gone`"),
        ("a", body(trigger=None), "trigger is not valid"),
        ("a", body(trigger={"triggerType": "Cron", "expression": "* * *"}), "3 fields, not 5"),
        ("a", body(isEnabled="no"), "must be true or false"),
        ("a", body(tags={"a": []}), "must be text"),
        ("a", {"properties": {"action": {"actionType": "Explode"}}}, "is not an action"),
    ],
)
def test_wrong_bodies_are_refused_in_words(workspace: Workspace, name: str, wrong: Any, message: str) -> None:
    status, answer = request(workspace, "PUT", name, body=wrong)
    assert status == 400
    assert message in answer["error"]["message"]
    assert [*records.list_schedules(workspace.database)] == []
    assert records.unfinished_firings(workspace.database, 9) == []


def test_monitors_are_stored_and_said_not_to_be_fired(workspace: Workspace) -> None:
    action = {"actionType": "CreateMonitor", "monitorDefinition": {"compute": {}}}
    assert (
        request(
            workspace,
            "PUT",
            "m",
            body={"properties": {"action": action, "trigger": {**CRON, "startTime": None}}},
        )[0]
        == 201
    )
    schedule = records.get_schedule(workspace.database, "m")
    assert schedule is not None
    assert "CreateMonitor" in schedule.note
    assert schedule.next_times() == []
    assert records.unfinished_firings(workspace.database, 9) == []
    status, answer = request(workspace, "POST", "m", action="trigger")
    assert (status, answer["error"]["message"]) == (400, schedule.note)


def test_an_existing_job_is_scheduled_with_changes(workspace: Workspace) -> None:
    asyncio.run(submit(workspace, "first", {**PIPELINE, "experimentName": "digits", "tags": {"a": "1"}}))
    changed = {
        "jobType": "Pipeline",
        "sourceJobId": f"{workspace.scope.id}/jobs/first",
        "experimentName": "",
        "isArchived": False,
        "inputs": {"other": {"jobInputType": "literal", "value": "5"}},
    }
    _, stored = request(workspace, "PUT", "again", body=body(changed))
    definition = stored["properties"]["action"]["jobDefinition"]
    assert definition["inputs"].keys() == {"text", "other"}
    assert definition["experimentName"] == "digits"
    assert definition["tags"] == {"a": "1"}
    assert definition["sourceJobId"].endswith("/jobs/first")


def only_job(workspace: Workspace) -> JobRecord:
    (job,) = list_in_state(workspace.database, ["Queued"])
    return job


def test_trigger_starts_one_job_that_tells_what_started_it(workspace: Workspace) -> None:
    request(workspace, "PUT", "weekly", body=body())
    time = {"scheduleTime": "2026-11-23T10:00:00.250000+01:00"}
    status, answer = request(workspace, "POST", "weekly", action="trigger", body=time)
    assert status == 200
    assert answer == {"scheduleActionType": "CreateJob", "submissionId": "weekly-20261123T090000250000Z"}
    assert request(workspace, "POST", "weekly", action="trigger", body=time) == (200, answer)  # repeated
    job = only_job(workspace)
    assert (job.name, job.schedule, job.display_name, job.experiment) == (
        "weekly-20261123T090000250000Z",
        "weekly",
        "weekly-20261123T090000250000Z",
        "weekly",
    )
    assert job.properties["inputs"]["text"]["value"] == f"{job.name} at 2026-11-23T09:00:00.250000Z"
    assert job.properties["properties"]["azureml.scheduleTrigger.scheduleName"] == "weekly"
    assert request(workspace, "POST", "weekly", action="trigger", body={"scheduleTime": "later"})[0] == 400
    assert request(workspace, "POST", "weekly", action="pull")[0] == 404


def test_a_refused_job_is_recorded_with_its_reason(workspace: Workspace) -> None:
    request(workspace, "PUT", "bad", body=body({**PIPELINE, "jobs": {"a": {"type": "nothing"}}}))
    status, answer = request(workspace, "POST", "bad", action="trigger")
    assert status == 400
    (firing,) = records.list_firings(workspace.database, "bad")
    assert firing.job is None
    assert firing.error == answer["error"]["message"]


async def timed(workspace: Workspace, seconds: float) -> None:
    async with fire.run_schedules(workspace):
        await asyncio.sleep(seconds)


def wait_for_jobs(workspace: Workspace, count: int) -> list[str]:
    async def wait() -> None:
        async with fire.run_schedules(workspace):
            for _ in range(200):
                if len(list_in_state(workspace.database, ["Queued"])) >= count:
                    break
                await asyncio.sleep(0.05)

    asyncio.run(wait())
    return [job.name for job in list_in_state(workspace.database, ["Queued"])]


def test_without_a_start_time_the_first_job_starts_at_once(workspace: Workspace) -> None:
    request(workspace, "PUT", "now", body=body(trigger={**CRON, "startTime": None}))
    schedule = records.get_schedule(workspace.database, "now")
    assert schedule is not None
    assert wait_for_jobs(workspace, 1) == [f"now-{schedule.created:%Y%m%dT%H%M%SZ}"]
    (firing,) = records.list_firings(workspace.database, "now")
    assert firing.job == only_job(workspace).name
    request(
        workspace, "PUT", "now", body=body(trigger={**CRON, "startTime": None})
    )  # an update starts nothing
    asyncio.run(timed(workspace, 0.2))
    assert only_job(workspace).name == firing.job


def test_a_due_time_fires_once_and_a_disabled_schedule_never(workspace: Workspace) -> None:
    soon = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(seconds=2)
    trigger = {
        "triggerType": "Recurrence",
        "frequency": "Day",
        "interval": 1,
        "startTime": f"{soon:%Y-%m-%d %H:%M:%S}",
    }
    request(workspace, "PUT", "on", body=body(trigger=trigger))
    request(workspace, "PUT", "off", body=body(trigger=trigger, isEnabled=False))
    assert wait_for_jobs(workspace, 1) == [f"on-{soon:%Y%m%dT%H%M%SZ}"]
    asyncio.run(timed(workspace, 0.3))
    assert len(list_in_state(workspace.database, ["Queued"])) == 1


def test_what_a_killed_server_claimed_goes_on_and_what_it_missed_does_not(workspace: Workspace) -> None:
    request(workspace, "PUT", "weekly", body=body())
    request(workspace, "PUT", "gone", body=body(isEnabled=False))
    claimed = datetime(2026, 11, 16, 3, tzinfo=timezone.utc)
    assert records.claim(workspace.database, "weekly", claimed) is not None
    assert records.claim(workspace.database, "weekly", claimed) is None
    assert records.claim(workspace.database, "gone", claimed) is not None
    request(workspace, "DELETE", "gone")
    assert wait_for_jobs(workspace, 1) == ["weekly-20261116T030000Z"]
    (lost,) = records.list_firings(workspace.database, "gone")
    assert lost.error == "The schedule was deleted before it fired."
    # Killed between the job and the note of it: the job is found by its name.
    workspace.database.connection.execute("UPDATE firings SET job = NULL WHERE schedule = 'weekly'")
    asyncio.run(timed(workspace, 0.3))
    assert only_job(workspace).name == "weekly-20261116T030000Z"
    assert [firing.job for firing in records.list_firings(workspace.database, "weekly")] == [
        "weekly-20261116T030000Z"
    ]


def test_the_longest_name_of_a_schedule_gives_names_of_jobs(workspace: Workspace) -> None:
    name = "s" * 255
    request(workspace, "PUT", name, body=body())
    status, answer = request(workspace, "POST", name, action="trigger")
    assert status == 200
    assert get_job(workspace.database, answer["submissionId"]) is not None
