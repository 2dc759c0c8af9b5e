"""Jobs through the management API, the queue's decisions and the run history; no job runs here."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from management import ask_handlers
from starlette.applications import Starlette
from starlette.testclient import TestClient

from worldsize.azureml.files import Files
from worldsize.azureml.job import read_job
from worldsize.azureml.tree import Tree
from worldsize.checking.stages import CheckRun
from worldsize.documents.yaml.compose import Composer
from worldsize.running.launch.machine import Machine
from worldsize.running.model.folder import RunFolder
from worldsize.running.model.results import Failure
from worldsize.running.prepare.preparation import find_target
from worldsize.running.record.tracker import chosen_artifacts
from worldsize.serving.control import assets
from worldsize.serving.history import routes
from worldsize.serving.jobs import job_files, records
from worldsize.serving.jobs.control import HANDLERS
from worldsize.serving.jobs.execution import describe_failure, summarise
from worldsize.serving.jobs.job_files import list_outputs, register_output
from worldsize.serving.jobs.process import AlreadyRunsError, find_process, hold_job, prepare_process
from worldsize.serving.jobs.queue import DIED, Queue
from worldsize.serving.jobs.submit import count_processes
from worldsize.serving.storage.artifacts import find_artifact
from worldsize.serving.workspace import Workspace

BASE = "https://management.azure.com"
COMMAND = {
    "jobType": "Command",
    "command": "echo hello",
    "environmentId": "azureml:e:1",
    "tags": {"team": "a"},
}


def request(workspace: Workspace, method: str, name: str | None = None, **rest: Any) -> tuple[int, Any]:
    """One request; its status and its document."""
    return ask_handlers(HANDLERS, workspace, method, "jobs", name, **rest)


def submit(workspace: Workspace, name: str, **changes: Any) -> tuple[int, Any]:
    return request(workspace, "PUT", name, body={"properties": {**COMMAND, **changes}})


def message(answer: Any) -> str:
    text: str = answer["error"]["message"]
    return text


def test_a_job_is_queued_and_shown(workspace: Workspace) -> None:
    status, made = submit(workspace, "first", outputs={"o": {"jobOutputType": "uri_folder"}})
    assert status == 201
    assert made == request(workspace, "GET", "first")[1]
    properties = made["properties"]
    assert properties["status"] == "Queued"
    assert properties["services"]["Studio"]["endpoint"].startswith("http://127.0.0.1:1/jobs/first?wsid=/")
    assert properties["outputs"]["o"]["uri"].endswith("/paths/azureml/first/o/")
    assert properties["outputs"]["default"]["uri"].endswith("ExperimentRun/dcid.first")
    assert (workspace.home.jobs / "first" / "pipeline.yml").exists()


def test_a_submitted_job_is_checked_once_and_parsed_once_in_each_process(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    compose, check = Composer.run, CheckRun.check_file
    monkeypatch.setattr(
        Composer, "run", lambda self: (events.append(Path(self.source.path).name), compose(self))[1]
    )
    monkeypatch.setattr(
        CheckRun, "check_file", lambda self, file: (events.append("check"), check(self, file))[1]
    )
    submit(workspace, "first")
    assert sorted(events) == ["check", "pipeline.yml", "worldsize.yml"]
    events.clear()
    job_file = workspace.home.jobs / "first" / "pipeline.yml"
    job, problems = find_target(job_file, tmp_path / "out", {}, checked=True).read_job(Files())
    assert (job is not None, problems, events) == (True, [], ["pipeline.yml"])


def test_a_name_is_taken_once(workspace: Workspace) -> None:
    submit(workspace, "first")
    status, answer = submit(workspace, "first")
    assert (status, answer["error"]["code"]) == (409, "Conflict")


@pytest.mark.parametrize("name", ["../up", ".hidden", "a/b", "a.b", "_a", "a b", "ä", "x" * 256, "a\n"])
def test_a_name_that_the_service_refuses_stores_nothing(workspace: Workspace, name: str) -> None:
    status, answer = submit(workspace, name)
    assert (status, answer["error"]["code"]) == (400, "ValidationError")
    assert "is not a name of a job" in message(answer)
    assert [*records.select_jobs(workspace.database, archived=(False, True))] == []
    assert list(workspace.home.jobs.iterdir()) == []


def test_a_name_has_up_to_255_characters(workspace: Workspace) -> None:
    assert submit(workspace, "x" * 255)[0] == 201
    assert submit(workspace, "0-A_z")[0] == 201


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Traceback (most recent call last):", "ValueError: no", "bye"), ": ValueError: no"),
        (("[rank1]: torch.distributed.DistBackendError: x", ""), ": torch.distributed.DistBackendError: x"),
        (("first", "reason", ""), ": reason"),
        (("error: no label column `solt`", "help: did you mean `sold`?"), ": error: no label column `solt`"),
        ((), ""),
    ],
)
def test_a_failure_is_one_sentence(lines: tuple[str, ...], expected: str) -> None:
    failure = Failure("rank-1", 1, 3, None, lines, "rank 1 ended with exit status 3", ("2 others followed",))
    assert describe_failure(failure) == f"rank 1 ended with exit status 3{expected}; 2 others followed"


def test_errors_of_the_checker_refuse_a_job(workspace: Workspace) -> None:
    status, answer = submit(workspace, "wrong", command="echo ${{inputs.data}}")
    assert status == 400
    assert "The job has errors.\nWS6" in message(answer)
    assert "data" in message(answer)
    assert [*records.select_jobs(workspace.database, archived=(False, True))] == []
    assert list(workspace.home.jobs.iterdir()) == []


def test_tags_and_the_archive_change_and_the_rest_does_not(workspace: Workspace) -> None:
    _, made = submit(workspace, "first")
    changed = {**made["properties"], "tags": {"team": "b"}, "displayName": "new", "command": "other"}
    status, answer = request(workspace, "PUT", "first", body={"properties": changed})
    assert status == 200
    assert answer["properties"]["tags"] == {"team": "b"}
    assert answer["properties"]["displayName"] == "new"
    assert answer["properties"]["command"] == "echo hello"
    request(workspace, "PUT", "first", body={"properties": {**changed, "isArchived": True}})
    assert request(workspace, "GET")[1]["value"] == []
    listed = request(workspace, "GET", query={"listviewtype": "ArchivedOnly"})[1]["value"]
    assert [job["name"] for job in listed] == ["first"]
    assert request(workspace, "DELETE", "first")[0] == 400


def test_lists_have_pages_and_filters(workspace: Workspace) -> None:
    for number in range(5):
        submit(workspace, f"job{number}", tags={"even": str(number % 2 == 0)})
    names, query = [], {"$top": "2"}
    while True:
        answer = request(workspace, "GET", query=query)[1]
        names += [job["name"] for job in answer["value"]]
        if "nextLink" not in answer:
            break
        query = dict(parse_qsl(answer["nextLink"].partition("?")[2]))
    assert names == ["job4", "job3", "job2", "job1", "job0"]
    for tag, count in (("even", 5), ("even=True", 3), ("odd", 0), ("even=x", 0)):
        assert len(request(workspace, "GET", query={"tag": tag})[1]["value"]) == count
    assert request(workspace, "GET", query={"jobtype": "Pipeline"})[1]["value"] == []
    assert request(workspace, "GET", query={"scheduled": "true"})[1]["value"] == []
    assert request(workspace, "GET", query={"$top": "many"})[0] == 400


def test_a_job_that_waits_is_canceled_at_once(workspace: Workspace) -> None:
    submit(workspace, "first")
    status, answer = request(workspace, "POST", "first", action="cancel")
    assert (status, answer["properties"]["status"]) == (200, "Canceled")
    assert request(workspace, "POST", "first", action="cancel")[1]["properties"]["status"] == "Canceled"
    assert request(workspace, "POST", "none", action="cancel")[0] == 404


def pipeline(workspace: Workspace, name: str) -> None:
    component = {
        "type": "command",
        "command": "echo > ${{outputs.o}}/x",
        "environment": "azureml:e:1",
        "outputs": {"o": {"type": "uri_folder"}},
    }
    assets.put_version(workspace.database, "components", "c", "1", {"componentSpec": component})
    node = {"type": "command", "componentId": "azureml:c:1"}
    status, answer = request(
        workspace,
        "PUT",
        name,
        body={
            "properties": {
                "jobType": "Pipeline",
                "jobs": {"one": {**node, "outputs": {"o": {"name": "data"}}}, "two": node},
            }
        },
    )
    assert status == 201, answer


def test_the_steps_of_a_pipeline_are_jobs_below_it(workspace: Workspace) -> None:
    pipeline(workspace, "whole")
    below = records.children(workspace.database, "whole")
    assert [(job.step, job.status, job.root) for job in below] == [
        ("one", "NotStarted", "whole"),
        ("two", "NotStarted", "whole"),
    ]
    assert below[0].name == records.child_name("whole", "one")
    status, shown = request(workspace, "GET", below[0].name)
    assert (status, shown["properties"]["parentJobName"]) == (200, "whole")
    assert [job["name"] for job in request(workspace, "GET")[1]["value"]] == ["whole"]
    assert request(workspace, "POST", below[0].name, action="cancel")[0] == 400
    request(workspace, "POST", "whole", action="cancel")
    assert {job.status for job in records.children(workspace.database, "whole")} == {"Canceled"}


def test_a_step_shows_its_inputs_with_their_addresses(workspace: Workspace) -> None:
    component = {
        "type": "command",
        "command": "cat ${{inputs.d}}/x; echo ${{inputs.n}} > ${{outputs.o}}/x",
        "environment": "azureml:e:1",
        "inputs": {"d": {"type": "uri_folder", "optional": True}, "n": {"type": "integer"}},
        "outputs": {"o": {"type": "uri_folder"}},
    }
    component["command"] = "echo $[[${{inputs.d}}]] ${{inputs.n}} > ${{outputs.o}}/x"
    assets.put_version(workspace.database, "components", "c", "1", {"componentSpec": component})
    number = {"n": {"job_input_type": "literal", "value": "3"}}
    data = {"d": {"job_input_type": "literal", "value": "${{parent.jobs.one.outputs.o}}"}}
    node = {"type": "command", "componentId": "azureml:c:1"}
    jobs = {"one": {**node, "inputs": number}, "two": {**node, "inputs": number | data}}
    status, answer = request(
        workspace, "PUT", "whole", body={"properties": {"jobType": "Pipeline", "jobs": jobs}}
    )
    assert status == 201, answer
    one, two = records.children(workspace.database, "whole")
    shown = request(workspace, "GET", two.name)[1]["properties"]["inputs"]
    assert shown["n"] == {"jobInputType": "literal", "value": "3"}
    assert shown["d"]["jobInputType"] == "uri_folder"
    written = request(workspace, "GET", one.name)[1]["properties"]["outputs"]["o"]["uri"]
    assert shown["d"]["uri"].rpartition("datastores/")[2] == written.rpartition("datastores/")[2]


@pytest.mark.parametrize(
    ("command", "more", "slots"),
    [
        ("python t.py", "", 1),
        ("torchrun --nproc-per-node=4 t.py", "", 4),
        ("torchrun --nnodes=2 --nproc_per_node=${{inputs.n}} t.py", "resources: {instance_count: 2}", 6),
        ("torchrun --nproc-per-node=4 t.py", "distribution: {type: pytorch}", 4),
        ("torchrun --nproc-per-node=400 t.py", "", 16),
        ("python t.py", "distribution: {type: mpi, process_count_per_instance: 3}", 3),
        ("python t.py", "distribution: {type: tensorflow, worker_count: 2}", 2),
        ("python t.py", "resources: {instance_count: 5}", 1),
    ],
)
def test_a_job_takes_the_slots_of_all_processes_that_it_starts(
    tmp_path: Path, command: str, more: str, slots: int
) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(
        f"type: command\ncommand: {command}\nenvironment: azureml:e:1\ncompute: azureml:c\n"
        f"inputs: {{n: 3}}\n{more}\n"
    )
    job, _ = read_job(path)
    assert job is not None
    assert min(16, count_processes(Tree(tmp_path), job)) == slots


@pytest.mark.parametrize(
    "counts",
    [
        "distribution: {type: mpi, process_count_per_instance: '${{parent.inputs.n}}'}",
        "resources: {instance_count: '${{parent.inputs.n}}'}, distribution: {type: mpi}",
    ],
)
def test_counts_of_a_step_that_the_pipeline_has_as_inputs_are_slots(tmp_path: Path, counts: str) -> None:
    path = tmp_path / "pipeline.yml"
    path.write_text(
        "type: pipeline\ninputs: {n: 3}\njobs:\n"
        f"  a: {{type: command, command: t, environment: 'azureml:e:1', compute: 'azureml:c', {counts}}}\n"
    )
    job, _ = read_job(path)
    assert job is not None
    assert count_processes(Tree(tmp_path), job) == 3


def test_an_adopted_job_keeps_the_slots_that_it_was_lent(workspace: Workspace, tmp_path: Path) -> None:
    submit(workspace, "wide")
    submit(workspace, "next")
    folder = workspace.home.jobs / "wide"
    prepare_process(folder, (0, 1))
    records.claim(workspace.database, "wide", before=("Queued",), after="Running")
    with hold_job(folder):
        queue = Queue(workspace, Machine(2))
        queue.adopt()
        assert queue.active["wide"].slots == (0, 1)
        asyncio.run(queue.tick())
    assert list(queue.active) == ["wide"]  # the other one waits


def test_a_named_output_becomes_one_asset(workspace: Workspace) -> None:
    pipeline(workspace, "whole")
    job = records.children(workspace.database, "whole")[0]
    (output,) = list_outputs(job)
    for _ in range(2):  # a process that is started again may register it again
        register_output(workspace.database, job, output)
    (version,) = assets.list_versions(workspace.database, "data", "data")
    assert (version.version, version.job) == ("1", job.name)
    assert version.properties["dataUri"].endswith(f"/paths/azureml/{job.name}/o/")


def test_what_a_job_logs_to_mlflow_is_among_its_artifacts(workspace: Workspace) -> None:
    step = RunFolder(workspace.home.runs / "whole").step("one")
    step.logs.mkdir(parents=True)
    (step.logs / "rank-0.log").write_text("a line\n")
    job_files.link_step(workspace.home, "one", step, [])
    logged = chosen_artifacts(workspace.home.artifacts, "one")  # where MLflow's client writes
    (logged / "model").mkdir()
    (logged / "model" / "MLmodel").write_text("flavors: {}\n")
    folder = job_files.artifacts_folder(workspace.home, "one")
    assert (folder / "model" / "MLmodel").read_text() == "flavors: {}\n"
    assert (folder / job_files.COMMAND_LOG).read_text() == "a line\n"
    found = find_artifact(workspace.home, logged / "model")
    assert found is not None
    assert (workspace.home.blobs / "azureml" / found / "MLmodel").is_file()


def test_the_history_has_details_children_and_outputs(workspace: Workspace) -> None:
    pipeline(workspace, "whole")
    records.set_status(workspace.database, "whole", "Failed", error=("UserError", "no luck"))
    job_files.append_log(workspace.home, "whole", job_files.PIPELINE_LOG, "a line\n")
    client = TestClient(Starlette(routes=routes(workspace)))
    history = f"/history/v1.0{workspace.scope.id}"
    details = client.get(f"{history}/runs/whole/details").json()
    assert details["status"] == "Failed"
    assert details["error"]["error"]["message"] == "no luck"
    (log,) = details["logFiles"].items()
    assert log[0] == "logs/azureml/executionlogs.txt"
    assert "/azureml/ExperimentRun/dcid.whole/logs/azureml/executionlogs.txt?" in log[1]
    below = client.get(f"{history}/runs/whole/children").json()["value"]
    assert [run["displayName"] for run in below] == ["one", "two"]
    assert client.get(f"{history}/runs/whole/serviceinstances/0").json() == {"instances": {}}
    data = client.post(f"{history}/rundata", json={"runId": below[0]["runId"]}).json()["runMetadata"]
    asset = data["outputs"]["o"]["assetId"]
    resolved = client.post(
        f"/data/v1.0{workspace.scope.id}/dataversion/batchGetResolvedUris", json={"values": [asset, "x"]}
    ).json()["values"]
    assert resolved[asset]["uri"].endswith(f"/paths/azureml/{below[0]['runId']}/o/")
    assert list(resolved) == [asset]
    client.patch(f"{history}/runs/whole", json={"hidden": True, "tags": {"a": "b"}})
    stored = records.get_job(workspace.database, "whole")
    assert stored is not None
    assert (stored.archived, stored.properties["tags"]) == (True, {"a": "b"})


def test_a_process_holds_its_job(workspace: Workspace, tmp_path: Path) -> None:
    assert find_process(tmp_path) is None
    with hold_job(tmp_path):
        assert find_process(tmp_path) == os.getpid()
        with pytest.raises(AlreadyRunsError), hold_job(tmp_path, patience=0.05):
            pass
    assert find_process(tmp_path) is None


def test_one_process_enters_a_job(workspace: Workspace) -> None:
    submit(workspace, "first")
    assert not records.enter_process(workspace.database, "first", 1)  # it waits
    assert records.claim(workspace.database, "first", before=("Queued",), after="Preparing")
    assert not records.claim(workspace.database, "first", before=("Queued",), after="Preparing")
    assert records.enter_process(workspace.database, "first", 1)
    assert not records.enter_process(workspace.database, "first", 2)


def test_a_new_server_finds_out_what_became_of_jobs(workspace: Workspace) -> None:
    states = {"waits": "Queued", "began": "Preparing", "died": "Running", "stops": "CancelRequested"}
    for name, status in states.items():
        submit(workspace, name)
        records.claim(workspace.database, name, before=("Queued",), after=status)
        if name in ("died", "stops"):
            workspace.database.connection.execute("UPDATE jobs SET pid = 1 WHERE name = ?", (name,))
    queue = Queue(workspace, Machine(2))
    queue.adopt()
    found = {name: records.get_job(workspace.database, name) for name in states}
    assert {name: job and job.status for name, job in found.items()} == {
        "waits": "Queued",
        "began": "Queued",  # its process had not begun
        "died": "Failed",
        "stops": "Canceled",
    }
    assert found["died"] is not None
    assert found["died"].error_message == DIED
    assert not queue.active


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"Completed"}, "Completed"),
        ({"Completed", "Failed"}, "Failed"),
        ({"Completed", "Canceled"}, "Canceled"),
        ({"NotStarted"}, "NotStarted"),
        ({"NotStarted", "Completed"}, "Running"),
    ],
)
def test_a_pipeline_inside_a_pipeline_follows_its_steps(states: set[str], expected: str) -> None:
    assert summarise(states) == expected


def test_logs_have_the_service_s_names() -> None:
    assert list(job_files.name_logs(["rank-0.log"])) == [("rank-0.log", "user_logs/std_log.txt")]
    alone = [("rank-0.log", "user_logs/std_log_process_00.txt")]
    assert list(job_files.name_logs(["rank-0.log"], 2)) == alone, "rank 1 has written nothing yet"
    names = dict(job_files.name_logs(["ps-0.log", "worker-0.log", "worker-11.log"]))
    assert names == {
        "ps-0.log": "user_logs/std_log_process_00_ps.txt",
        "worker-0.log": "user_logs/std_log_process_00.txt",
        "worker-11.log": "user_logs/std_log_process_11.txt",
    }
