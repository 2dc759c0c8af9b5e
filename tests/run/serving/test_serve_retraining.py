"""A schedule in a workspace that looks before it trains, with the real client, trainer and registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from retrained_regression import SPEC, add_week
from serving import Served, serving

pytestmark = [pytest.mark.run, pytest.mark.timeout(900)]

FEED = "azureml://datastores/workspaceblobstore/paths/feed/"
WORKSPACE = ("--subscription", "s", "--resource-group", "g", "--workspace", "w")
CLIENT = """
import json, sys, tempfile, time
from pathlib import Path
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential

client = MLClient(DefaultAzureCredential(), "s", "g", "w")
schedule, before, look = sys.argv[1], set(), None
if sys.argv[2:] == ["trigger"]:
    before = {job.name for job in client.jobs.list()}
    client.schedules.trigger(schedule)
while look is None or look.status not in ("Completed", "Failed", "Canceled"):
    time.sleep(0.5)
    looks = client.jobs.list(scheduled_job_name=schedule)
    look = next((job for job in looks if job.name not in before), None)
child = next(iter(client.jobs.list(parent_job_name=look.name)))
folder = tempfile.mkdtemp()
client.jobs.download(child.name, output_name="answer", download_path=folder)
answer = json.loads(next(Path(folder).rglob("answer.json")).read_text())
print(json.dumps({**answer, "status": look.status, "look": look.name}))
"""
WAIT = """
import json, time
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential

client = MLClient(DefaultAzureCredential(), "s", "g", "w")
jobs = lambda: [job for job in client.jobs.list() if "worldsize.retrain" in (job.tags or {})]
while any(job.status not in ("Completed", "Failed", "Canceled") for job in jobs()):
    time.sleep(0.5)
print(json.dumps([[job.name, job.status, dict(job.tags)] for job in reversed(jobs())]))
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as server:
        yield server


def test_three_firings_of_a_schedule(served: Served, tmp_path: Path) -> None:
    def fire(*words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(served.python(CLIENT, "sales_schedule", *words).splitlines()[-1])
        return answer

    def wait() -> list[tuple[str, str, dict[str, str]]]:
        found: list[tuple[str, str, dict[str, str]]] = json.loads(
            served.run(sys.executable, "-c", WAIT, timeout=280).stdout.splitlines()[-1]
        )
        return found

    def call(*words: str) -> Any:
        done = served.run(sys.executable, "-m", "worldsize", *words, *WORKSPACE, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    blobs = served.home / "serve" / "blobs" / "azureml-blobstore"
    blobs.mkdir(parents=True, exist_ok=True)
    add_week(blobs, 1, 300)
    schedule = 'schedule: {cron: "0 3 1 1 *", time_zone: UTC}\n'
    (tmp_path / "spec.yml").write_text(SPEC.replace("./feed", FEED) + schedule)
    submit = ("submit", "spec.yml", "--schedule", "--create-compute", *WORKSPACE)
    done = served.run(sys.executable, "-m", "worldsize", *submit)
    assert done.returncode == 0, done.stdout + done.stderr

    first = fire()  # a schedule without a start time fires when it is created
    assert (first["action"], first["champion"], first["status"]) == ("train", None, "Completed")
    ((name, status, tags),) = wait()
    assert status == "Completed"
    assert tags["worldsize.retrain.look"] == first["look"]
    assert name in first["reason"]
    quiet = fire("trigger")
    assert (quiet["action"], quiet["champion"]) == ("none", {"version": "1"})
    assert quiet["reason"] == f"nothing is new since run {name}: data, code and spec are unchanged"
    assert call("retrain", "spec.yml")["action"] == "none"  # what storage lists is what is mounted
    assert len(wait()) == 1
    add_week(blobs, 2, 900)
    second = fire("trigger")
    assert (second["action"], second["champion"]) == ("train", {"version": "1"})
    assert second["reason"].startswith("there is new data: `sales`")
    assert [status for _, status, _ in wait()] == ["Completed", "Completed"]
    versions = call("models", "sales")
    assert [version["version"] for version in versions] == ["1", "2"]
    answer = call("retrain", "spec.yml")
    champion = next(version["version"] for version in versions if version["champion"])
    assert (answer["action"], answer["champion"]) == ("none", {"version": champion})
