"""Values of variables and inputs that are called like secrets stay out of all that a run writes down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import worldsize
from worldsize.running import api
from worldsize.running.recording import disclosure
from worldsize.running.showing import preview
from worldsize.running.starting.processes import Process
from worldsize.running.starting.sources import File, Text

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings: {default_compute: azureml:cluster}
jobs:
  fetch:
    type: command
    command: curl -H "Authorization ${{inputs.api_key}}" --retry ${{inputs.retries}}
    environment: azureml:e:1
    inputs: {api_key: hunter2-hunter2, retries: 3}
    environment_variables:
      WANDB_API_KEY: swordfish-1
      DB_CONNECTION_STRING: Server=x;Pwd=swordfish-2
      DEBUG: "1"
    distribution: {type: pytorch, process_count_per_instance: 2}
"""
SECRETS = ("hunter2", "swordfish-1", "swordfish-2")


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "AZURE_CLIENT_SECRET", "DB_PASSWORD", "PGPASSWORD", "STORAGE_ACCOUNT_KEY", "api_key",
     "AZURE_STORAGE_CONNECTION_STRING", "BLOB_SAS", "BLOB_SAS_URL", "AWS_SECRET_ACCESS_KEY", "Cookie",
     "HTTP_AUTHORIZATION", "AZUREML_PARAMETER_password"],
)  # fmt: skip
def test_names_that_say_secret(name: str) -> None:
    assert disclosure.masked({name: "x"}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["TOKENS", "TOKENIZERS_PARALLELISM", "tokenizer", "PATH", "max_tokens", "NCCL_DEBUG", "seed"]
)
def test_names_that_do_not(name: str) -> None:
    assert disclosure.masked({name: "x"}) == {name: "x"}


def test_a_command_is_shown_without_the_secrets_pasted_into_it() -> None:
    env = {"AZUREML_PARAMETER_api_key": "hunter2-hunter2", "TOKEN": "abc", "LEVEL": "info"}
    process = Process("rank-0", 0, 0, 0, ("bash", "-c", "get hunter2-hunter2 abc info"), env)
    assert disclosure.command(process) == ["bash", "-c", "get *** abc info"]
    assert "hunter2" not in json.dumps(disclosure.shown(process))


def test_parameters_are_cut_and_masked() -> None:
    given = {"password": Text("hunter2"), "title": Text("x" * 900), "data": File(Path("d")), "rest": None}
    assert disclosure.parameters(given, 10) == {"password": "***", "title": "x" * 10}


def test_a_dry_run_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yml").write_text(JOB, encoding="utf-8")
    shown = preview.render(api.dry_run("job.yml"))
    assert "WANDB_API_KEY" in shown
    assert "--retry 3" in shown
    assert not [secret for secret in SECRETS if secret in shown]


@pytest.mark.run
@pytest.mark.timeout(120)
def test_nothing_that_a_run_writes_holds_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = JOB.replace("curl -H", "true").replace('"Authorization ${{inputs.api_key}}"', "${{inputs.api_key}}")
    Path("job.yml").write_text(job, encoding="utf-8")
    result = worldsize.run("job.yml", runs_dir=tmp_path / "runs", track=False)
    assert result.state == "succeeded"
    written = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert any(path.name == "events.jsonl" for path in written)
    found = [(path.name, each) for path in written for each in SECRETS if each.encode() in path.read_bytes()]
    assert found == []
