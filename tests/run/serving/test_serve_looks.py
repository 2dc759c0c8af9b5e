"""Looks at a workspace that are doubled, and trainings that fail there, with steps that need no framework."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from retrained_project import SPEC, Project
from serving import Served, serving

pytestmark = [pytest.mark.run, pytest.mark.timeout(300)]

WORKSPACE = ("--subscription", "s", "--resource-group", "g", "--workspace", "w")
WAIT = """
import json, sys, time
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential

client = MLClient(DefaultAzureCredential(), "s", "g", "w")
while any(job.status not in ("Completed", "Failed", "Canceled") for job in client.jobs.list()):
    time.sleep(0.3)
print(json.dumps([[job.name, job.status] for job in sorted(client.jobs.list(), key=lambda job: job.name)]))
"""
TWICE = """
import json, sys
from pathlib import Path
from worldsize import api
from worldsize.api.look_files import describe_retrained
from worldsize.remote.names import find_workspace
from worldsize.remote.rest import Rest
from worldsize.retraining.decide import decide
from worldsize.retraining.workspace import WorkspaceWorld

compiled = api.compile("spec.yml", "out")
files = {name: compiled.folder / name for name in compiled.files}
retrained = describe_retrained(compiled.planned, compiled.plan, files)
worlds = [
    WorkspaceWorld(Rest(find_workspace("s", "g", "w")), retrained, Path("out"), 0.0, mounts={}, look=look)
    for look in ("one", "two")
]
looks = [(world, world.see(looking=False)) for world in worlds]
outcomes = [world.act(seen, decide(seen.facts, world.policy, 0.0)) for world, seen in looks]
print(json.dumps([outcome.reason for outcome in outcomes]))
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    variables = {**os.environ, "TRAINED": str(tmp_path / "trained")}
    with serving(tmp_path, environment=variables) as server:
        yield server


@pytest.fixture
def project(served: Served, tmp_path: Path) -> Project:
    made = Project(tmp_path)
    blobs = served.home / "serve" / "blobs" / "azureml-blobstore"
    blobs.mkdir(parents=True, exist_ok=True)
    (tmp_path / "sales").rename(blobs / "sales")
    for path in tmp_path.glob("*/component.yml"):
        path.write_text(path.read_text().replace("any@latest", "any:1"))  # the client looks up a label
    return made


def write(project: Project, fault: str) -> None:
    text = SPEC.replace("./sales", "azureml://datastores/workspaceblobstore/paths/sales/")
    text = text.replace("any@latest", "any:1")
    project.write_spec(f"{text.replace('FAULT', fault)}retrain: {{}}\n")


def look(served: Served, *words: str, status: int = 0) -> dict[str, Any]:
    command = (sys.executable, "-m", "worldsize", "retrain", "spec.yml", "--json", *WORKSPACE, *words)
    done = served.run(*command)
    assert done.returncode == status, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def wait(served: Served) -> list[list[str]]:
    jobs: list[list[str]] = json.loads(served.python(WAIT))
    return jobs


def test_two_looks_at_the_same_instant_submit_one_job(served: Served, project: Project) -> None:
    write(project, "true")
    first, second = json.loads(served.python(TWICE).splitlines()[-1])
    assert first == second
    ((name, status),) = wait(served)
    assert first == f"nothing has been trained yet (job {name})"
    assert (status, project.trained) == ("Completed", 1)
    answer = look(served)
    assert (answer["action"], answer["model"]) == ("none", "sales")


def test_a_killed_training_is_continued_and_a_fault_of_the_code_is_not(
    served: Served, project: Project
) -> None:
    fault = project.folder / "trained.fault"
    fault.touch()
    write(project, "kill -9 $$")
    assert look(served)["action"] == "train"
    ((name, status),) = wait(served)
    assert status == "Failed"
    assert look(served)["action"] == "wait"
    fault.unlink()
    later = look(served, "--now", "2100-01-01T00:00Z")
    assert later["action"] == "train"
    assert later["reason"].startswith(f"run {name} is continued")
    assert wait(served) == [[name, "Failed"], [f"{name.removesuffix('1')}2", "Completed"]]
    assert look(served)["action"] == "none"
    fault.touch()
    write(project, "exit 3")
    assert look(served)["action"] == "train"
    assert wait(served)[-1][1] == "Failed" or wait(served)[0][1] == "Failed"
    answer = look(served, status=1)
    assert answer["action"] == "stop"
    assert "is not tried again until the data, the code or the spec changes" in answer["reason"]
    assert len(wait(served)) == 3


def test_data_on_this_machine_is_refused(served: Served, project: Project) -> None:
    write(project, "true")
    spec = project.folder / "spec.yml"
    project.write_spec(spec.read_text().replace("azureml://datastores/workspaceblobstore/paths", "."))
    project.add("week1.csv", 20)
    answer = look(served, status=1)
    assert answer["action"] == "stop"
    assert "where a job in Azure does not see it" in answer["reason"]
