"""Submitted jobs are planned down to this machine, share its slots, and show what their steps wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shipped_runs import PIPELINES, write_changed
from tests.run.serving.test_jobs import HEAD
from tests.support.serving import Served, serving

from worldsize.running.launch.machine import detect_machine
from worldsize.serving.jobs import job_files

pytestmark = [pytest.mark.run, pytest.mark.timeout(400)]

STEPS = (
    HEAD
    + """
report = {}
hand = job(
    "echo rank $RANK of $WORLD_SIZE", instance_count=2, compute="cpu-cluster", name="hand",
    distribution={"type": "pytorch", "process_count_per_instance": 4},
)
write = CommandComponent(
    name="write", display_name="Write",
    command="echo ${{inputs.text}} > ${{outputs.out}}/a.txt && echo weights > ${{outputs.model}}/m.txt",
    environment=ENV, inputs={"text": {"type": "string"}},
    outputs={"out": Output(type="uri_folder"), "model": Output(type="custom_model")},
)
read = CommandComponent(
    name="read", command="cat ${{inputs.src}}/a.txt > ${{outputs.result}}/b.txt && exit ${{inputs.status}}",
    environment=ENV, inputs={"src": Input(type="uri_folder"), "status": {"type": "integer"}},
    outputs={"result": Output(type="uri_folder")},
)
@dsl.pipeline(default_compute="cpu-cluster")
def both():
    first = write(text="hello")
    first.display_name = "Write the text"
    second = read(src=first.outputs.out, status=3)
pipeline = both()
pipeline.name = "both"
ml.jobs.create_or_update(pipeline)
report["status"] = [wait("hand").status, wait("both").status]
ml.jobs.download("hand", download_path="hand", all=True)
report["hand"] = files("hand")
children = {child.display_name: child.name for child in ml.jobs.list(parent_job_name="both")}
first, second = (ml.jobs.get(children[name]) for name in ("Write the text", "second"))
ml.jobs.download(first.name, download_path="all", all=True)
ml.jobs.download(first.name, download_path="one", output_name="out")
report["first"] = {"all": files("all"), "one": files("one"), "path": first.outputs["out"].path}
report["second"] = second.inputs["src"].path
try:
    ml.jobs.stream("both")
except Exception as error:
    report["error"] = str(error)
print(json.dumps(report))
"""
)
QUEUE = (
    HEAD
    + """
def rank(count):
    return {"type": "pytorch", "process_count_per_instance": count}
text = "echo start $(date +%s.%N) >> ${{outputs.o}}/t; sleep 2; echo end $(date +%s.%N) >> ${{outputs.o}}/t"
def submit(count):
    command = text if count == 1 else "sleep 1"
    return job(command, distribution=rank(count), outputs={"o": Output(type="uri_folder")}).name
names = [submit(1), submit(1), submit(SLOTS), submit(1)] + [job("echo x").name for _ in range(16)]
print(json.dumps([names, [wait(name).status for name in names]]))
"""
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("planned")) as server:
        yield server


@pytest.fixture(scope="module")
def report(served: Served) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(served.python(STEPS).splitlines()[-1])
    return answer


def test_a_job_without_a_plan_keeps_its_processes_and_says_so(report: dict[str, Any]) -> None:
    assert report["status"][0] == "Completed"
    logs = {name: text for name, text in report["hand"].items() if "std_log_process" in name}
    assert sorted(logs.values()) == [f"rank {rank} of 8\n" for rank in range(8)]
    if detect_machine().slots < 8:
        assert "8 processes share" in report["hand"][f"artifacts/{job_files.NOTICES_LOG}"]


def test_the_outputs_of_a_step_are_shown_and_downloaded(report: dict[str, Any], served: Served) -> None:
    first = report["first"]
    assert first["all"]["named-outputs/out/a.txt"] == "hello\n"
    assert first["all"]["named-outputs/model/m.txt"] == "weights\n"
    assert first["one"]["named-outputs/out/a.txt"] == "hello\n"
    assert report["second"].rpartition("datastores/")[2] == first["path"].rpartition("datastores/")[2]
    command = ["-m", "worldsize", "show", "both", "--azure", "--json"]
    shown = json.loads(served.run(sys.executable, *command).stdout)
    assert list(shown["steps"]) == ["first", "second"]  # not also "Write the text"
    assert "out" in shown["steps"]["first"]["outputs"]
    assert "result" in shown["steps"]["second"]["outputs"]


def test_a_client_in_the_servers_folder_finds_the_workspace(served: Served) -> None:
    code = (
        "from azure.ai.ml import MLClient; from azure.identity import DefaultAzureCredential as Credential; "
    )
    assert served.python(code + "print(MLClient.from_config(Credential()).workspace_name)").strip()


def test_the_error_of_a_job_is_one_sentence(report: dict[str, Any]) -> None:
    assert report["status"][1] == "Failed"
    assert "Step `second`: rank 0 ended with exit status 3" in report["error"]
    assert "Last lines" not in report["error"]


def test_jobs_share_the_slots_and_keep_their_order(served: Served) -> None:
    slots = detect_machine().slots
    if slots < 2:
        pytest.skip("one slot is shared by nobody")
    names, states = json.loads(served.python(QUEUE.replace("SLOTS", str(slots))).splitlines()[-1])
    assert states == ["Completed"] * 20
    folder = served.home / "serve" / "blobs" / "azureml-blobstore" / "azureml"
    times = {
        name: dict(line.split() for line in (folder / name / "o" / "t").read_text().splitlines())
        for name in (names[0], names[1], names[3])
    }
    first, second, last = (
        {key: float(value) for key, value in times[name].items()} for name in (names[0], names[1], names[3])
    )
    assert second["start"] < first["end"]  # side by side
    assert last["start"] > max(first["end"], second["end"])  # it does not overtake the large one


SUBMIT = (
    HEAD
    + """
from azure.ai.ml import load_job
pipeline = load_job("build/pipeline.yml")
pipeline.name = "digits"
print(ml.jobs.create_or_update(pipeline).name)
"""
)
WAIT = HEAD + """print(json.dumps(wait("digits").status))"""


def test_a_compiled_pipeline_is_planned_down(served: Served) -> None:
    less = {"train": {"with": {"epochs": 2}, "scale": {"warmup_epochs": 1}}}
    spec = write_changed(PIPELINES / "digits_ddp.yml", served.folder, ("shard", "train"), less)
    compiled = served.run(sys.executable, "-m", "worldsize", "compile", str(spec), "-o", "build")
    assert compiled.returncode == 0, compiled.stderr
    assert served.python(SUBMIT).splitlines()[-1] == "digits"
    waited = served.run(sys.executable, "-c", WAIT, timeout=300)
    assert json.loads(waited.stdout.splitlines()[-1]) == "Completed", waited.stderr
    home = served.home / "serve" / "blobs" / "azureml" / "ExperimentRun" / "dcid.digits"
    log = (home / job_files.PIPELINE_LOG).read_text()
    slots = detect_machine().slots
    if slots < 8:
        assert "train: planned for 8 processes (2 × 4), running" in log
        assert "global batch 256 unchanged" in log
        started = list((served.home / "runs" / "digits" / "steps" / "train" / "logs").glob("*.log"))
        assert 0 < len(started) <= slots
    expect_prediction_apart(served, spec)


def expect_prediction_apart(served: Served, spec: Path) -> None:
    """The speed here is not compared with that of the cluster, and calibrates nothing on GPUs."""
    command = [sys.executable, "-m", "worldsize"]
    shown = json.loads(served.run(*command, "show", "digits", "--azure", "--json").stdout)
    speed = shown["steps"]["train"]["speed"]
    assert speed["samples_per_second"] > 0
    assert speed["predicted"]["low"] < speed["predicted"]["expected"] < speed["predicted"]["high"]
    assert speed["predicted_for"]["gpus"] == 8
    if detect_machine().gpus:
        return
    assert (speed["ratio"], speed["inside"]) == (None, None)
    assert "predicted for 2 × Standard_" in served.run(*command, "show", "digits", "--azure").stdout
    refused = served.run(*command, "plan", str(spec), "--from", "digits", "--azure")
    assert refused.stderr == "error: `digits` tells nothing of this workload: it ran without GPUs\n"
