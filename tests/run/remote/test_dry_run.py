"""`worldsize submit --dry-run`: the bodies of the real azure-ai-ml client, and not one request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.remote.submit import fold_uploads

pytestmark = [pytest.mark.run, pytest.mark.timeout(90)]

PIPELINES = Path(__file__).parents[3] / "pipelines"
COMMAND = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
display_name: hello
command: cat ${{inputs.data}} && echo ${{inputs.epochs}}
code: ./src
environment: azureml:sklearn@latest
compute: azureml:cpu-cluster
inputs:
  epochs: 3
  data: {type: uri_file, path: ./rows.csv}
"""


def submit(folder: Path, *words: str, status: int = 0) -> Any:
    """Run the command where nothing can be reached; its output, as JSON where it succeeds."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AZURE", "NO_PROXY"))},
        "HTTPS_PROXY": "http://127.0.0.1:9",  # nobody listens: a request that left would fail
    }
    done = subprocess.run(
        [sys.executable, "-m", "worldsize", "submit", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def bodies(document: Any, kind: str) -> list[Any]:
    return [each["body"]["properties"] for each in document["requests"] if f"/{kind}/" in each["path"]]


@pytest.mark.smoke
def test_a_spec_is_shown_as_the_pipeline_it_becomes(tmp_path: Path) -> None:
    document = submit(
        tmp_path, str(PIPELINES / "digits_ddp.yml"), "--dry-run", "--set", "train.epochs=2", "-q"
    )
    (job,) = bodies(document, "jobs")
    assert (job["jobType"], job["experimentName"]) == ("Pipeline", "digits")
    assert list(job["jobs"]) == ["shard", "train", "evaluate", "register"]
    assert job["jobs"]["train"]["inputs"]["epochs"]["value"] == "2"
    assert job["jobs"]["train"]["resources"]["instance_count"] == 2
    assert sorted(document["computes"]) == ["cpu-cluster", "gpu-cluster"]
    assert len(bodies(document, "components")) == len(bodies(document, "codes")) == 4
    assert any(name.endswith("/train.py") for name in document["uploads"])
    assert "<workspace>" in document["workspace"]


@pytest.mark.smoke
def test_a_job_is_shown_with_its_uploads_and_settings(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print(1)\n")
    (tmp_path / "rows.csv").write_text("1\n")
    (tmp_path / "job.yml").write_text(COMMAND)
    words = ("--dry-run", "--set", "epochs=7", "--name", "mine", "--experiment", "tries", "-w", "our")
    document = submit(tmp_path, "job.yml", *words)
    (job,) = bodies(document, "jobs")
    assert document["requests"][-1]["path"].endswith("/workspaces/our/jobs/mine")
    assert job["inputs"]["epochs"]["value"] == "7"
    assert job["experimentName"] == "tries"
    assert job["environmentId"].endswith("/environments/sklearn/versions/latest")
    assert {Path(name).name for name in document["uploads"]} == {"main.py", "rows.csv"}


def test_the_schedule_of_a_spec_is_shown(tmp_path: Path) -> None:
    document = submit(tmp_path, str(PIPELINES / "digits_ddp.yml"), "--dry-run", "--schedule", "-q")
    (schedule,) = bodies(document, "schedules")
    assert schedule["trigger"]["expression"] == "0 3 * * 1"
    assert schedule["action"]["jobDefinition"]["jobType"] == "Pipeline"


@pytest.mark.smoke
def test_a_file_that_the_client_refuses_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()  # empty, which the client does not upload
    (tmp_path / "rows.csv").write_text("1\n")
    (tmp_path / "job.yml").write_text(COMMAND)
    text = submit(tmp_path, "job.yml", "--dry-run", "-q", status=1)
    assert "Traceback" not in text
    assert text.startswith("error: ")
    assert "empty" in text


def test_a_workspace_that_cannot_be_reached_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print(1)\n")
    (tmp_path / "rows.csv").write_text("1\n")
    (tmp_path / "job.yml").write_text(COMMAND)
    text = submit(tmp_path, "job.yml", "--subscription", "s", "-g", "g", "-w", "w", status=1)
    assert "Traceback" not in text
    assert text.startswith("error: there are no credentials for Azure\n  = help: log in with `az login`")


def test_many_files_of_one_folder_are_counted() -> None:
    data = [f"LocalUpload/1a2b/pictures/{number}.png" for number in range(1600)]
    code = ["LocalUpload/3c4d/src/train.py"]
    assert fold_uploads([*data, *code]) == ["LocalUpload/1a2b/ (1600 files)", *code]


def test_a_component_behind_a_label_is_sent(tmp_path: Path) -> None:
    """The client reads the component that has the label, and sends its id."""
    (tmp_path / "drawn.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\n"
        "type: pipeline\n"
        "settings: {default_compute: azureml:cpu-cluster}\n"
        "jobs:\n"
        "  shard: {type: command, component: 'azureml:shard_data@latest'}\n"
    )
    (job,) = bodies(submit(tmp_path, "drawn.yml", "--dry-run", "-q"), "jobs")
    assert job["jobs"]["shard"]["componentId"].endswith("/components/shard_data/versions/latest")
