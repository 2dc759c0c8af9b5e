"""`worldsize submit`, and `runs`, `show` and `logs --azure`, against a workspace by the real client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from serving import Served, serving
from shipped_runs import PIPELINES

from worldsize.running.launch.machine import detect_machine

pytestmark = [pytest.mark.run, pytest.mark.timeout(170)]

PIPELINE = """\
    $schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
    type: pipeline
    display_name: two_steps
    experiment_name: tries
    settings: {default_compute: azureml:cpu-cluster}
    inputs: {n: 3}
    outputs: {final: {type: uri_folder}}
    jobs:
      first:
        type: command
        command: echo ${{inputs.n}} > ${{outputs.made}}/n.txt && echo wrote
        environment: {image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04}
        inputs: {n: "${{parent.inputs.n}}"}
        outputs: {made: {type: uri_folder}}
      second:
        type: command
        command: >-
          cp ${{inputs.made}}/n.txt ${{outputs.final}} && echo checking &&
          test $(cat ${{inputs.made}}/n.txt) = 3
        environment: {image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04}
        inputs: {made: "${{parent.jobs.first.outputs.made}}"}
        outputs: {final: "${{parent.outputs.final}}"}
    """
# What a workspace has, and the catalogue does not.
NEWER = """\
compute: {wide: {instance_type: standard_nd256xyz_v9, max_instances: 2}}
vm_sizes: {Standard_ND256xyz_v9: {gpus: 8, vcpus: 256, memory_gib: 2048}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("submit")
    (folder / "pipe.yml").write_text(textwrap.dedent(PIPELINE))
    (folder / "worldsize.yml").write_text(NEWER)
    with serving(folder) as server:
        yield server


def worldsize(served: Served, *words: str, status: int = 0) -> str:
    """Call a command as a client of the workspace; its standard output, then its standard error."""
    done = served.run(sys.executable, "-m", "worldsize", *words)
    assert done.returncode == status, done.stdout + done.stderr
    return str(done.stdout + done.stderr)


@pytest.fixture(scope="module", autouse=True)  # it is the first: the steps of a later one are reused
def good(served: Served) -> str:
    return worldsize(served, "submit", "pipe.yml", "--name", "good", "--download", "got")


def test_a_job_is_followed_to_its_end_and_downloaded(served: Served, good: str) -> None:
    for line in ("job good  http", "first: succeeded after", "second: succeeded after", "job good succeeded"):
        assert line in good
    assert (served.folder / "got" / "named-outputs" / "final" / "n.txt").read_text() == "3\n"


def test_a_job_is_listed_and_shown_like_a_run_here(served: Served, good: str) -> None:
    rows = [line.split() for line in worldsize(served, "runs", "--azure").splitlines()]
    assert ["good", "succeeded", "2/2"] in [row[:3] for row in rows]
    shown = json.loads(worldsize(served, "show", "good", "--azure", "--json"))
    assert (shown["state"], shown["pipeline"], shown["experiment"]) == ("succeeded", "two_steps", "tries")
    assert shown["steps"]["first"]["parameters"] == {"n": "3"}
    assert shown["steps"]["second"]["needs"] == ["first"]
    assert "first" in worldsize(served, "show", "last", "--azure")


def test_a_job_has_a_page_like_a_run_here(served: Served, good: str) -> None:
    assert worldsize(served, "report", "good", "--azure", "-o", "good.html") == "good.html\n"
    text = (served.folder / "good.html").read_text(encoding="utf-8")
    assert '<span class="state succeeded">succeeded</span>' in text
    assert "Logs are in the workspace" in text
    assert '<span class="name" title="first">' in text  # on the timeline


def test_logs_are_read_by_step(served: Served, good: str) -> None:
    assert worldsize(served, "logs", "good", "first", "--azure") == "wrote\n"
    assert worldsize(served, "logs", "good", "second", "--azure", "--follow") == "checking\n"
    assert "did you mean `first`" in worldsize(served, "logs", "good", "frist", "--azure", status=1)


# What a trainer logs on the GPUs that it was planned for.
TRAINING = """\
import mlflow
with mlflow.start_run():
    mlflow.log_params(PARAMETERS)
    for step in range(8):
        mlflow.log_metric("samples_per_second", 50.0, step=step)
    mlflow.log_metric("memory_peak_bytes", 31e9)
    import sys
    from pathlib import Path
    sys.path.insert(0, SHARED)
    from wstrain.tracking.step_recorder import RANK_TIMES
    lines = [
        '{"step": %d, "time": %d, "trained_seconds": %d, "computed_seconds": [%d, %g]}'
        % (step, 1000 + step, step, step, step / 2) for step in range(8)
    ]
    mlflow.log_text("\\n".join(lines), RANK_TIMES)
    Path("confusion_matrix.png").write_bytes(b"\\x89PNG\\r\\n\\x1a\\n" + bytes(40))
    mlflow.log_artifact("confusion_matrix.png")
"""
SHARED = str(Path(__file__).parents[3] / "components" / "_shared")
PARAMETERS = {
    "world_size": 8, "batch_size_per_device": 4, "precision": "bf16", "strategy": "fsdp",
    "activation_checkpointing": "blocks", "planned_gpus_per_instance": 4,
    "planned_instance_type": "Standard_NC96ads_A100_v4", "device": "NVIDIA A100 80GB PCIe",
    "predicted_samples_per_second": 100, "predicted_samples_per_second_low": 85,
    "predicted_samples_per_second_high": 118, "predicted_memory_bytes": 60_000_000_000,
    "predicted_cluster": "2 x Standard_NC96ads_A100_v4, 8 GPUs",
}  # fmt: skip
TRAIN = """\
type: command
display_name: train
command: python train.py
code: ./code
environment: {image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04}
compute: azureml:cpu-cluster
inputs: {predicted_samples_per_second: 100}
"""
ESTIMATE = """\
workload: {kind: transformer, parameters: 1.3e9, layers: 24, width: 2048, heads: 16, vocabulary: 50368,
           sequence_length: 2048}
training: {micro_batch: 4, precision: bf16, strategy: fsdp, activation_checkpointing: true}
cluster: {instance_type: Standard_NC96ads_A100_v4, instance_count: 2}
"""


def expect_a_page_of_the_training(served: Served) -> None:
    worldsize(served, "report", "trained", "--azure", "-o", "trained.html")
    text = (served.folder / "trained.html").read_text(encoding="utf-8")
    assert 'alt="Confusion matrix (train)" src="data:image/png;base64,iVBORw0KGgo' in text
    assert "Where the ranks spent their time" in text
    assert "Rank 0 was most often the slowest" in text
    for cell in ("100 (85 to 118)", "50 % below the plan", "60.0 GB", "48 % below the plan"):
        assert cell in text


def expect_lists_by_metric(served: Served) -> None:
    def listed(*words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(worldsize(served, "runs", "--azure", "--json", *words))
        return found

    found = listed("--where", "samples_per_second>40", "--metric", "train.memory_peak_bytes")
    (one,) = (each for each in found if each["id"] == "trained")
    assert one["metrics"] == {"samples_per_second": 50.0, "train.memory_peak_bytes": 31e9}
    assert "trained" not in [each["id"] for each in listed("--where", "samples_per_second>60")]
    assert [each["id"] for each in listed("--pipeline", "TRAIN", "--state", "succeeded")] == ["trained"]
    assert listed("--since", "2099-01-01") == []
    found = listed("--sort", "samples_per_second", "--metric", "samples_per_second")
    speeds = [each["metrics"].get("samples_per_second", 0.0) for each in found]
    assert speeds == sorted(speeds)
    assert 50.0 in speeds
    assert worldsize(served, "runs", "--azure", "--state", "queued") == "no job matches\n"
    refused = worldsize(served, "runs", "--azure", "--metric", "samples_per_secnd", status=1)
    assert "error: no run has a metric `samples_per_secnd`" in refused
    assert "did you mean `samples_per_second`" in refused


def test_a_job_is_submitted_and_followed_for_a_program(served: Served, good: str) -> None:
    words = ("submit", "pipe.yml", "--json", "--name")
    done = served.run(sys.executable, "-m", "worldsize", *words, "told")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["id"], told["state"], list(told["steps"])) == ("told", "succeeded", ["first", "second"])
    done = served.run(sys.executable, "-m", "worldsize", *words, "sent", "--no-wait", "--set", "n=4")
    sent = json.loads(done.stdout)
    assert sent["id"] == "sent"
    assert sent["studio"].startswith("http")
    done = served.run(sys.executable, "-m", "worldsize", *words, "lost", "--set", "n=4")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (1, "failed")


def test_a_job_that_trained_calibrates_and_shows_what_was_predicted(served: Served) -> None:
    (served.folder / "code").mkdir()
    (served.folder / "code" / "train.py").write_text(
        TRAINING.replace("PARAMETERS", repr(PARAMETERS)).replace("SHARED", repr(SHARED))
    )
    (served.folder / "train.yml").write_text(TRAIN)
    (served.folder / "estimate.yml").write_text(ESTIMATE)
    submitted = worldsize(served, "submit", "train.yml", "--name", "trained")
    expect_a_page_of_the_training(served)
    expect_lists_by_metric(served)
    assert "  train  measured 50 % below the prediction\n" in submitted
    shown = worldsize(served, "show", "trained", "--azure")
    assert "samples/s: 50 (predicted 100, 85 to 118), ratio 0.5" in shown
    assert "measured 50 % below the prediction" in shown
    (row,) = (line for line in worldsize(served, "runs", "--azure").splitlines() if "trained" in line)
    assert row.split()[-2:] == ["50", "100"]
    found = [
        json.loads(worldsize(served, "estimate", "estimate.yml", "--json", *more))
        for more in ((), ("--from", "trained", "--azure"))
    ]
    assert found[1]["basis"].startswith("calibrated by 1 run on 8 GPUs")
    speeds = [each["samples_per_second"] for each in found]
    assert speeds[1]["expected"] == pytest.approx(50, rel=1e-3)
    assert speeds[1]["high"] / speeds[1]["low"] < speeds[0]["high"] / speeds[0]["low"]


def test_a_failed_step_is_named_with_the_end_of_its_log(served: Served) -> None:
    text = worldsize(served, "submit", "pipe.yml", "--set", "n=4", "--name", "bad", "-q", status=1)
    assert "error: step `second` failed" in text
    assert "  | checking" in text
    assert "job bad failed after" in text


def test_a_name_that_is_taken_is_answered_by_what_to_do(served: Served, good: str) -> None:
    text = worldsize(served, "submit", "pipe.yml", "--name", "good", status=1)
    assert "error: A job named `good` exists already." in text
    assert "= help: add `--name NEW`, or remove `name:` from the file" in text


def test_a_job_that_failed_before_its_first_step_says_why(served: Served) -> None:
    text = (served.folder / "pipe.yml").read_text()
    text = text.replace("display_name: two_steps\n", "")
    text = text.replace('{n: "${{parent.inputs.n}}"}', '{n: "${{parent.inputs.n}}", rows: *rows}')
    text = text.replace(
        "inputs: {n: 3}", "inputs: {n: 3, rows: &rows {type: uri_file, path: azureml:houses:9}}"
    )
    (served.folder / "missing.yml").write_text(text)
    said = worldsize(served, "submit", "missing.yml", "--name", "missing", status=1)
    shown = worldsize(served, "show", "missing", "--azure")
    asked = [
        worldsize(served, "logs", "missing", "--azure", status=1),
        worldsize(served, "logs", "missing", "first", "--azure", status=1),
    ]
    for each in (said, shown, *asked):
        assert "is `azureml:houses:9`" in each
        assert "az ml data create --name houses --version 9 --type uri_file" in each
        assert "--map" not in each
    assert all(each.startswith("error: no step of `missing` has started: ") for each in asked)
    assert "houses" in json.loads(worldsize(served, "show", "missing", "--azure", "--json"))["failure"]
    (row,) = (line for line in worldsize(served, "runs", "--azure").splitlines() if "missing" in line)
    assert row.endswith("tries")  # the experiment, where the job has no name of its own


def test_clusters_that_are_missing_are_created_on_request(served: Served) -> None:
    project = served.folder / "project"  # beside that of the server, which has the clusters of its own
    project.mkdir()
    text = (served.folder / "pipe.yml").read_text().replace("cpu-cluster", "small")
    (project / "pipe.yml").write_text(text)
    (project / "worldsize.yml").write_text("compute: {small: {instance_type: Standard_D16s_v5}}\n")
    refused = worldsize(served, "submit", "project/pipe.yml", "--no-wait", status=1)
    assert refused.startswith("error: the workspace has no compute `small`\n  = help: add `--create-compute`")
    created = worldsize(served, "submit", "project/pipe.yml", "--no-wait", "--create-compute")
    assert "creating compute `small`" in created
    assert "is submitted" in created


def test_the_clusters_of_the_workspace_come_into_the_settings(served: Served) -> None:
    worldsize(served, "catalogue", "--refresh", "--file", "found.yml")
    text = (served.folder / "found.yml").read_text()
    assert text.startswith("compute:\n")
    assert "  gpu-cluster: {instance_type: Standard_" in text


def test_sizes_that_the_catalogue_lacks_are_learned_from_the_workspace(served: Served) -> None:
    learner = served.folder / "learner"  # a project of its own
    learner.mkdir()
    before = "# ours\nseverity: {WS810: info}  # for now\n"
    (learner / "worldsize.yml").write_text(before)
    said = worldsize(served, "catalogue", "--refresh", "--file", "learner/worldsize.yml")
    assert "now in `learner/worldsize.yml`: `STANDARD_ND256XYZ_V9` (8 GPUs)" in said
    text = (learner / "worldsize.yml").read_text()
    assert text.startswith(before)
    line = "vm_sizes:\n  STANDARD_ND256XYZ_V9: {gpus: 8, vcpus: 256, memory_gib: 2048}\n"
    assert text.endswith(line)
    assert "  wide: {instance_type: STANDARD_ND256XYZ_V9, max_instances: 2, tier: dedicated}\n" in text
    job = "type: command\ncommand: python a.py\nenvironment: azureml:e:1\ncompute: azureml:wide\n"
    job += "resources: {instance_count: 2}\ndistribution: {type: pytorch, process_count_per_instance: 16}\n"
    (learner / "job.yml").write_text(job)
    found = worldsize(served, "check", "learner/job.yml", "--format", "concise", status=1)
    assert "WS203" in found
    assert "`STANDARD_ND256XYZ_V9` has 8 GPUs" in found
    again = worldsize(served, "catalogue", "--refresh", "--file", "learner/worldsize.yml")
    assert "`learner/worldsize.yml` is unchanged" in again


def test_a_job_that_is_not_there_is_one_message(served: Served) -> None:
    text = worldsize(served, "show", "nothing", "--azure", status=1)
    assert text.startswith("error: ")
    assert "nothing" in text
    assert "Traceback" not in text


def test_an_interrupt_leaves_the_job_running_and_says_so(served: Served) -> None:
    slow = (served.folder / "pipe.yml").read_text().replace("echo wrote", "sleep 30")
    (served.folder / "slow.yml").write_text(slow)
    words = [
        sys.executable,
        "-m",
        "worldsize",
        "submit",
        "slow.yml",
        "--name",
        "slow",
        "--cancel-on-interrupt",
    ]
    with subprocess.Popen(
        words,
        cwd=served.folder,
        env=served.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any("first: running" in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, "job slow is being canceled" in errors) == (130, True)
    assert "canceled" in worldsize(served, "runs", "--azure")


def test_the_result_names_the_model_and_the_processes_that_ran(served: Served) -> None:
    text = (PIPELINES / "digits_ddp.yml").read_text(encoding="utf-8")
    spec = yaml.safe_load(text.replace("epochs: 20", "epochs: 1").replace("warmup_epochs: 2", ""))
    del spec["steps"]["register"]["when"], spec["schedule"]
    (served.folder / "digits.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    submitted = worldsize(served, "submit", "digits.yml", "--name", "digits", "--create-compute")
    planned = f"train: planned for 8 processes (2 × 4), running {detect_machine().slots} here"
    assert submitted.count(planned) == 2, submitted  # when it begins, and in the result
    assert "train: running, 8 processes" not in submitted
    assert "  model  digits-cnn version 1  azureml:digits-cnn:1\n" in submitted
    shown = json.loads(worldsize(served, "show", "digits", "--azure", "--json"))
    assert shown["models"] == [{"name": "digits-cnn", "version": "1", "reason": None}]


COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: fit_registered
type: command
inputs: {epochs: {type: integer}, note: {type: string, optional: true}, rate: {type: number, default: 0.1}}
outputs: {made: {type: uri_folder}}
command: echo ${{inputs.epochs}} ${{inputs.rate}} $[[${{inputs.note}}]] > ${{outputs.made}}/n.txt
environment: {image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04}
"""
REGISTER = """\
from azure.ai.ml import MLClient, load_component
from azure.identity import DefaultAzureCredential

client = MLClient.from_config(DefaultAzureCredential())
client.components.create_or_update(load_component("fit.yml"))
"""
BY_NAME = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings: {default_compute: azureml:cpu-cluster}
jobs:
  fit: {type: command, component: "azureml:fit_registered@latest", inputs: {epoch: 3}}
"""


def test_inputs_of_a_registered_component_are_checked_before_the_job_is_sent(served: Served) -> None:
    for name, text in {"fit.yml": COMPONENT, "register.py": REGISTER, "by_name.yml": BY_NAME}.items():
        (served.folder / name).write_text(text)
    assert served.run(sys.executable, "register.py").returncode == 0

    refused = worldsize(served, "submit", "by_name.yml", "--name", "by-name", status=1)
    assert "by_name.yml:5:77: error[WS612]" in refused
    assert "did you mean `epochs`?" in refused
    assert "by-name" not in worldsize(served, "runs", "--azure")

    (served.folder / "by_name.yml").write_text(BY_NAME.replace("epoch:", "epochs:"))
    assert "job by-name succeeded" in worldsize(served, "submit", "by_name.yml", "--name", "by-name")

    (served.folder / "by_name.yml").write_text(BY_NAME.replace("inputs: {epoch: 3}", "inputs: {}"))
    words = ("submit", "by_name.yml", "--name", "by-set", "--set", "fit.epochs=4")
    assert "job by-set succeeded" in worldsize(served, *words)
    assert "epochs = 4" in worldsize(served, "show", "by-set", "--azure")
