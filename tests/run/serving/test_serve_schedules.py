"""Schedules by the real client: created, fired when due, triggered, disabled and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import serving

pytestmark = [pytest.mark.run, pytest.mark.timeout(180)]

CLIENT = """
import time
from datetime import datetime, timedelta, timezone
from azure.ai.ml import Input, MLClient, command, dsl
from azure.ai.ml.entities import CronTrigger, JobSchedule, RecurrenceTrigger
from azure.core.exceptions import HttpResponseError
from azure.identity import DefaultAzureCredential

client = MLClient(DefaultAzureCredential(), "s", "g", "w")
hello = command(
    name="hello",
    command="echo ${{inputs.text}}",
    environment="AzureML-sklearn-1.5@latest",
    inputs={"text": Input(type="string")},
).component

@dsl.pipeline(compute="cpu-cluster")
def greet(text):
    hello(text=text)

job = greet(text="${{creation_context.trigger_time}}")
soon = (datetime.now(timezone.utc) + timedelta(seconds=4)).replace(microsecond=0)
trigger = RecurrenceTrigger(frequency="day", interval=1, start_time=soon.strftime("%Y-%m-%dT%H:%M:%S"))

def create(name, trigger, job):
    schedule = JobSchedule(name=name, trigger=trigger, create_job=job)
    return client.schedules.begin_create_or_update(schedule).result()

made = create("daily", trigger, job)
assert made.is_enabled and made.provisioning_state == "Succeeded", made
assert client.schedules.trigger("daily").schedule_action_type == "CreateJob"

deadline = time.time() + 90
while True:
    jobs = list(client.jobs.list(scheduled_job_name="daily"))
    if len(jobs) == 2 and all(each.status == "Completed" for each in jobs) or time.time() > deadline:
        break
    time.sleep(0.3)
print([each.status for each in jobs])
fired = client.jobs.get(f"daily-{soon:%Y%m%dT%H%M%SZ}")
assert fired.display_name == fired.name and fired.experiment_name == "daily", fired
assert fired.inputs["text"]._data == f"{soon:%Y-%m-%dT%H:%M:%SZ}", fired.inputs["text"]._data
assert fired.properties["azureml.scheduleTrigger.scheduleName"] == "daily", fired.properties

past, zone = "2026-01-01T00:00:00", "W. Europe Standard Time"
again = create("again", CronTrigger(expression="0 3 * * 1", start_time=past, time_zone=zone), fired.id)
assert again.create_job.inputs["text"]._data == fired.inputs["text"]._data
assert sorted(each.name for each in client.schedules.list()) == ["again", "daily"]
try:
    client.schedules.begin_delete("again").result()
except HttpResponseError as error:
    assert "only a disabled schedule" in error.message, error
else:
    raise AssertionError("an enabled schedule was deleted")
assert client.schedules.begin_disable("again").result().is_enabled is False
assert [each.name for each in client.schedules.list()] == ["daily"]
client.schedules.begin_delete("again").result()
try:
    create("bad", CronTrigger(expression="0 25 * * *"), job)
except HttpResponseError as error:
    assert error.status_code == 400 and "hour 25 is outside 0 to 23" in error.message, error
else:
    raise AssertionError("a wrong expression was accepted")
print("done")
"""


def test_schedules_by_the_real_client(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        said = served.python(CLIENT)
    assert said.splitlines()[-1] == "done"
    assert "'Completed'" in said
