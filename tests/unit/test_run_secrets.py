"""What was given as a secret stays out of all that a run writes and shows, wherever its value has gone."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

import worldsize
from worldsize.documents.secrecy.masking import Mask
from worldsize.running import api as run
from worldsize.running.launch.redaction import Redaction, redact_parameters
from worldsize.running.model.errors import ResumeError, RunError
from worldsize.running.model.options import RunOptions
from worldsize.running.model.process import Process
from worldsize.running.model.task import File, Text
from worldsize.running.show.preview import render_preview

SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\n"
JOB = f"""\
{SCHEMA}type: pipeline
settings: {{default_compute: azureml:cluster}}
jobs:
  fetch:
    type: command
    command: curl -H "Authorization ${{{{inputs.api_key}}}}" --retry ${{{{inputs.retries}}}}
    environment: azureml:e:1
    inputs: {{api_key: hunter2-hunter2, retries: 3}}
    environment_variables:
      WANDB_API_KEY: swordfish-1
      DB_CONNECTION_STRING: Server=x;Pwd=swordfish-2
      DEBUG: "1"
    distribution: {{type: pytorch, process_count_per_instance: 2}}
"""
SECRETS = ("hunter2", "swordfish-1", "swordfish-2")


def test_a_process_is_shown_without_the_secrets_in_its_command_and_variables() -> None:
    env = {
        "AZUREML_PARAMETER_api_key": "hunter2-hunter2",
        "TOKEN": "abc",
        "LEVEL": "info",
        "T": "hunter2-hunter2",
    }
    process = Process("rank-0", 0, 0, 0, ("bash", "-c", "get hunter2-hunter2 info"), env)
    shown = Redaction(Mask({"hunter2-hunter2"})).process(process)
    assert shown.argv == ("bash", "-c", "get *** info")
    assert shown.env == {"AZUREML_PARAMETER_api_key": "***", "TOKEN": "***", "LEVEL": "info", "T": "***"}


def test_parameters_are_masked_then_cut() -> None:
    given = {
        "password": Text("hunter2"),
        "title": Text("x" * 900),
        "note": Text("say swordfish"),
        "t": Text("true", secret=True),
        "data": File(Path("d")),
        "rest": None,
    }
    shown = redact_parameters(given, 10, Mask({"swordfish"}))
    assert shown == {"password": "***", "title": "x" * 10, "note": "say ***", "t": "***"}


@pytest.mark.parametrize(
    "way",
    [str, json.dumps, lambda text: json.dumps(text, ensure_ascii=False), shlex.quote, repr, quote,
     lambda text: base64.b64encode(text.encode()).decode()],
)  # fmt: skip
def test_a_secret_is_hidden_however_it_is_written(way: object) -> None:
    secret = "é\"p'w d\\x/&1"
    assert callable(way)
    shown = Mask({secret}).text(f"--login={way(secret)}, then")
    assert "***" in shown
    assert "p" not in shown.replace("--login", "")


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("true", "enabled: true", "enabled: true"),  # a word of every file
        ("ab", "lab cab ab", "lab cab ab"),
        ("rain", "train rain-1 rain", "train ***-1 ***"),  # alone, not inside of words
        ("rainstorm", "trainstorms", "t***s"),
        ("one\nlonger line", "x longer line y", "x *** y"),  # an excerpt has it line by line
    ],
)
def test_short_secrets_do_not_hide_other_words(secret: str, text: str, shown: str) -> None:
    assert Mask({secret}).text(text) == shown


def test_a_dry_run_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yml").write_text(JOB, encoding="utf-8")
    shown = render_preview(run.dry_run("job.yml"))
    assert "WANDB_API_KEY" in shown
    assert "--retry 3" in shown
    assert not [secret for secret in SECRETS if secret in shown]


BOUND = f"""\
{SCHEMA}type: pipeline
settings: {{default_compute: azureml:cluster}}
inputs: {{api_token: none-yet, user_pin: "x", plain: visible}}
jobs:
  fetch:
    type: command
    command: echo ${{{{inputs.t}}}} ${{{{inputs.joined}}}} ${{{{inputs.p}}}} true
    environment: azureml:e:1
    inputs:
      t: ${{{{parent.inputs.api_token}}}}
      joined: Bearer ${{{{parent.inputs.api_token}}}}
      p: ${{{{parent.inputs.plain}}}}
    environment_variables: {{HEADER: "${{{{parent.inputs.api_token}}}}"}}
  nested:
    type: pipeline
    component: ./nested.yml
    inputs: {{handed: "${{{{parent.inputs.api_token}}}}"}}
  parallel:
    type: parallel
    compute: azureml:cluster
    mini_batch_size: "1"
    input_data: ${{{{inputs.files}}}}
    inputs:
      files: {{type: uri_folder, path: ./data}}
      q: ${{{{parent.inputs.api_token}}}}
    task:
      type: run_function
      code: ./code
      entry_script: entry.py
      environment: azureml:e:1
      program_arguments: --q ${{{{inputs.q}}}}
"""
NESTED = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineComponent.schema.json
type: pipeline
name: nested
inputs: {handed: {type: string}}
jobs:
  inner:
    type: command
    command: echo ${{inputs.x}} && (test -e ../../../../../../go || exit 3)
    compute: azureml:cluster
    environment: azureml:e:1
    inputs: {x: "${{parent.inputs.handed}}"}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yml").write_text(BOUND, encoding="utf-8")
    (tmp_path / "nested.yml").write_text(NESTED, encoding="utf-8")
    for folder, name, text in (
        ("data", "a.txt", "1"),
        ("code", "entry.py", "def run(batch): return batch\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("secret", ["s3cret-of-the-token", 'with "quotes" & $igns', "true", "4711", "abc"])
@pytest.mark.usefixtures("project")
def test_secrecy_follows_a_value_through_every_binding(secret: str) -> None:
    plans = run.dry_run("job.yml", RunOptions(settings={"api_token": secret}))
    shown = render_preview(plans)
    assert "visible" in shown
    assert "echo *** *** visible true" in shown
    for process in (each for plan in plans.values() for each in plan):
        own = {name: value for name, value in process.env.items() if name.endswith(("_t", "_x", "_q"))}
        assert set(own.values()) <= {"***"}
    if secret not in ("true", "abc"):  # too short or common to be looked for in a variable's text
        assert secret not in shown
        assert "HEADER='***'" in shown


@pytest.mark.usefixtures("project")
def test_a_refused_secret_is_not_quoted() -> None:
    Path("job.yml").write_text(BOUND.replace("none-yet", "7"), encoding="utf-8")
    Path("nested.yml").write_text(NESTED.replace("type: string", "type: integer"), encoding="utf-8")
    with pytest.raises(RunError) as caught:
        run.dry_run("job.yml", RunOptions(settings={"api_token": "swordfish"}))
    assert "swordfish" not in str(caught.value)
    assert "--set api_token=***" in str(caught.value)


def call(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "worldsize", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, **options)  # type: ignore[call-overload]
    assert isinstance(done, subprocess.CompletedProcess)
    return done


def holders(folder: Path, secret: str) -> list[str]:
    """The files with a secret in any of its forms, but for what steps wrote themselves."""
    ways = {
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode(),
    }
    own = {"logs", "outputs"}
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.name == "events.jsonl" for path in files)
    return [
        str(path.relative_to(folder))
        for path in files
        if not own & set(path.relative_to(folder).parts)
        and any(way.encode() in path.read_bytes() for way in ways)
    ]


def open_to_others(folder: Path) -> list[str]:
    """What others than the user can reach: all but what steps have made in their own folders."""
    found = [folder, *folder.rglob("*")]
    return [
        str(path)
        for path in found
        if not path.is_symlink()
        and not {"outputs", "code"} & set(path.relative_to(folder).parts[4:])
        and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.timeout(240)
def test_nothing_that_a_run_keeps_or_says_holds_a_secret(project: Path) -> None:
    secret = "s3cret/of+the%token=é"
    flags = ("--set", f"api_token={secret}", "--environment", "current", "--runs-dir", "home")
    done = call("run", "job.yml", *flags, umask=0)
    assert done.returncode == 1, done.stdout + done.stderr
    assert secret not in done.stdout + done.stderr
    assert "| ***" in done.stderr  # the failed step's own last lines
    assert holders(project / "home", secret) == []
    assert open_to_others(project / "home") == []
    with sqlite3.connect(project / "home" / "mlflow.db") as database:
        values = dict(database.execute("select key, value from params").fetchall())
    assert values["fetch.t"] == values["fetch.joined"] == values["nested.inner.x"] == "***"
    assert values["fetch.p"] == "visible"
    shown = call("show", "last", "--runs-dir", "home")
    assert "t = ***" in shown.stdout
    assert secret not in shown.stdout + call("show", "last", "--json", "--runs-dir", "home").stdout

    refused = call("resume", "last", "--runs-dir", "home", stdin=subprocess.DEVNULL)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 2
    assert "was given `api_token`, and Worldsize does not store secrets" in refused.stderr
    assert "give it again: `--set api_token=…`" in refused.stderr
    (project / "go").touch()
    resumed = call("resume", "last", "--set", f"api_token={secret}", "--runs-dir", "home", umask=0)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "fetch: had succeeded" in resumed.stdout
    assert holders(project / "home", secret) == []
    assert open_to_others(project / "home") == []


SPEC = """\
name: asks
compute: {cpu: {target: azureml:cpu-cluster, instance_type: Standard_D16s_v5}}
steps:
  fetch:
    command: echo ${{inputs.api_token}} ${{inputs.password}} && test -e ../../../../../../go
    compute: cpu
    environment: azureml:e:1
    with: {api_token: from-file-1, password: from-file-2}
"""


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.timeout(120)
def test_the_compiled_copy_of_a_spec_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yml").write_text(SPEC, encoding="utf-8")
    options = RunOptions(settings={"fetch.api_token": "from-option-3"})
    result = worldsize.run("spec.yml", options, runs_dir=tmp_path / "home", track=False)
    assert result.failure is not None
    assert result.failure.last_lines == ("*** ***",)
    log = (result.folder / "steps" / "fetch" / "logs" / "rank-0.log").read_text(encoding="utf-8")
    assert log == "from-option-3 from-file-2\n"  # what a step prints is its own affair
    assert (result.folder / "pipeline" / "pipeline.yml").exists()
    for secret in ("from-file-2", "from-option-3"):
        assert holders(tmp_path / "home", secret) == []
    Path("spec.yml").rename("gone.yml")
    with pytest.raises(ResumeError, match=r"does not contain the secret `fetch\.password`"):
        worldsize.resume(result.folder, settings={"fetch.api_token": "from-option-3"})
    with pytest.raises(ResumeError, match="`epochs` is not a secret"):
        worldsize.resume(result.folder, settings={"epochs": "3"})
    asked: list[str] = []

    def answer(name: str) -> str:
        asked.append(name)
        return "from-option-3"

    result = worldsize.resume(result.folder, settings={"fetch.password": "from-file-2"}, ask=answer)
    assert asked == ["fetch.api_token"]
    assert result.failure is not None
    assert result.failure.last_lines == ("*** ***",)


@pytest.mark.smoke
@pytest.mark.run
@pytest.mark.timeout(60)
def test_what_a_step_makes_has_the_modes_of_the_users_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = JOB.replace(
        'curl -H "Authorization ${{inputs.api_key}}"', "echo ${{inputs.api_key}} > outputs/made; true"
    )
    Path("job.yml").write_text(job.replace("process_count_per_instance: 2", "process_count_per_instance: 1"))
    before = os.umask(0o022)
    try:
        result = worldsize.run("job.yml", RunOptions(environment="current"), runs_dir="home", track=False)
        assert os.umask(0o022) == 0o022  # the caller's own is as it was
    finally:
        os.umask(before)
    made = result.folder / "steps" / "fetch" / "code" / "outputs" / "made"
    assert stat.S_IMODE(made.stat().st_mode) == 0o644
    assert stat.S_IMODE(result.folder.stat().st_mode) == 0o700
