"""Jobs that the real client submits: they run, are streamed, downloaded, canceled and adopted."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import Served, serving, start

from worldsize.serving.database import Database
from worldsize.serving.home import Home
from worldsize.serving.jobs import records
from worldsize.serving.jobs.process import find_process

pytestmark = [pytest.mark.run, pytest.mark.timeout(300)]

HEAD = """
import json, logging, sys, time
from pathlib import Path
from azure.ai.ml import Input, MLClient, Output, command, dsl
from azure.ai.ml.entities import CommandComponent
from azure.identity import DefaultAzureCredential
logging.disable(logging.WARNING)
ml = MLClient(DefaultAzureCredential(), "s", "g", "w")
ENV = "azureml://registries/azureml/environments/sklearn-1.5/labels/latest"
def job(text, **more):
    return ml.jobs.create_or_update(command(command=text, environment=ENV, **more))
def wait(name):
    while (found := ml.jobs.get(name)).status not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.1)
    return found
def files(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in Path(folder).rglob("*") if p.is_file()}
"""
SCRIPT = """
import mlflow
with mlflow.start_run() as run:
    mlflow.log_metric("loss", 0.5)
print("run", run.info.run_id)
Path = __import__("pathlib").Path
Path("outputs").mkdir(exist_ok=True)
Path("outputs/kept.txt").write_text("kept")
"""
CLIENT = (
    HEAD
    + """
import contextlib, io
report = {}

made = job(
    "python train.py && echo data > ${{outputs.result}}/x.txt", code="./code", display_name="train",
    experiment_name="numbers", outputs={"result": Output(type="uri_folder", name="numbers")},
    compute="cpu-cluster",
)
import mlflow
report["early"] = mlflow.get_run(made.name).info.run_id
said = io.StringIO()
with contextlib.redirect_stdout(said):
    ml.jobs.stream(made.name)
ml.jobs.download(made.name, download_path="command", all=True)
asset = ml.data.get("numbers", version="1")
report["command"] = {
    "name": made.name, "stream": said.getvalue(), "status": ml.jobs.get(made.name).status,
    "files": files("command"), "asset": asset.path,
}

failed = job("echo reason; exit 3")
try:
    ml.jobs.stream(failed.name)
except Exception as error:
    report["failed"] = {"error": str(error), "status": ml.jobs.get(failed.name).status}

write = CommandComponent(
    name="write", command="echo ${{inputs.text}} > ${{outputs.out}}/a.txt", environment=ENV,
    inputs={"text": {"type": "string"}}, outputs={"out": Output(type="uri_folder")},
)
read = CommandComponent(
    name="read", command="cat ${{inputs.src}}/a.txt > ${{outputs.result}}", environment=ENV,
    inputs={"src": Input(type="uri_folder")}, outputs={"result": Output(type="uri_file")},
)
@dsl.pipeline(default_compute="cpu-cluster")
def both(text: str):
    first = write(text=text)
    second = read(src=first.outputs.out)
    second.outputs.result.name = "copies"
    return {"final": second.outputs.result}
for name in ("pipeline", "again"):
    made = wait(ml.jobs.create_or_update(both(text="hello")).name)
    ml.jobs.download(made.name, download_path=name, all=True)
    below = sorted(ml.jobs.list(parent_job_name=made.name), key=lambda child: child.display_name)
    report[name] = {
        "status": made.status, "files": files(name),
        "children": [[child.display_name, child.status, child.properties.get("azureml.isreused")]
                     for child in below],
        "output": ml.jobs.get(below[1].name).outputs["result"].path,
    }

long = job("sleep 100 & sleep 200")
while ml.jobs.get(long.name).status != "Running":
    time.sleep(0.1)
begun = time.time()
ml.jobs.begin_cancel(long.name).result()
report["canceled"] = {"status": ml.jobs.get(long.name).status, "seconds": time.time() - begun}

names = [job(f"echo {number}").name for number in range(6)]
report["queue"] = [wait(name).status for name in names]
leaves = "mkfifo ${{outputs.made}}/metrics.json"
report["pipe"] = wait(job(leaves, outputs={"made": Output(type="uri_folder")}).name).status
print(json.dumps(report))
"""
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text(SCRIPT)
    with serving(folder) as server:
        yield server


@pytest.fixture(scope="module")
def report(served: Served) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(served.python(CLIENT).splitlines()[-1])
    return answer


@pytest.mark.smoke
def test_a_command_runs_and_is_streamed_and_downloaded(report: dict[str, Any], served: Served) -> None:
    command = report["command"]
    assert command["status"] == "Completed"
    assert report["early"] == command["name"]
    assert (
        f"RunId: {command['name']}" in command["stream"]
    )  # a short job has ended before its log is asked for
    assert command["files"]["named-outputs/result/x.txt"] == "data\n"
    assert command["files"]["artifacts/outputs/kept.txt"] == "kept"
    assert "run" in command["files"]["artifacts/user_logs/std_log.txt"]
    assert command["asset"].endswith(f"/paths/azureml/{command['name']}/result/")


@pytest.mark.smoke
def test_a_failure_says_why(report: dict[str, Any]) -> None:
    assert report["failed"]["status"] == "Failed"
    assert "rank 0 ended with exit status 3" in report["failed"]["error"]
    assert "reason" in report["failed"]["error"]


@pytest.mark.smoke
def test_the_steps_of_a_pipeline_are_children_and_are_reused(report: dict[str, Any]) -> None:
    for name, reused in (("pipeline", None), ("again", "true")):
        pipeline = report[name]
        assert pipeline["status"] == "Completed"
        assert pipeline["children"] == [["first", "Completed", reused], ["second", "Completed", reused]]
        assert pipeline["files"]["named-outputs/final/final"] == "hello\n"
        assert "first: completed" in pipeline["files"]["artifacts/logs/azureml/executionlogs.txt"]


@pytest.mark.smoke
def test_a_canceled_job_ends_at_once(report: dict[str, Any]) -> None:
    assert report["canceled"]["status"] == "Canceled"
    assert report["canceled"]["seconds"] < 10


@pytest.mark.smoke
def test_jobs_wait_their_turn(report: dict[str, Any]) -> None:
    assert report["queue"] == ["Completed"] * 6


@pytest.mark.smoke
def test_a_pipe_for_metrics_leaves_no_job_running(report: dict[str, Any]) -> None:
    assert report["pipe"] == "Completed"


WAITING = (
    HEAD
    + """
print(json.dumps([job("sleep 4; echo done").name, job("sleep 300").name]))
"""
)


def test_jobs_outlive_a_killed_server(tmp_path: Path) -> None:
    server = start(tmp_path)
    survivor, victim = json.loads(server.python(WAITING).splitlines()[-1])
    home = Home(server.home)
    database = Database(home.database)
    wait_for(database, survivor, "Running")
    wait_for(database, victim, "Running")
    server.stop(signal.SIGKILL)
    assert server.process.stdout is not None
    server.process.stdout.close()
    pid = find_process(home.jobs / victim)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with serving(tmp_path):
        wait_for(database, survivor, "Completed")
        assert "was killed" in (wait_for(database, victim, "Failed").error_message or "")
    assert find_process(home.jobs / survivor) is None
    database.close()


def wait_for(database: Database, name: str, status: str) -> records.JobRecord:
    """Wait until a job has a status; the job."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        job = records.get_job(database, name)
        assert job is not None
        if job.status == status:
            return job
        time.sleep(0.05)
    raise AssertionError(f"{name} is {job.status}: {job.error_message}")
