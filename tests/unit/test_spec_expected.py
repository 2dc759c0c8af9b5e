"""`plan` and `compile` on what is not a spec: one diagnostic says what the file is and what reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import worldsize
from worldsize.cli import main
from worldsize.documents.errors import SpecError

SCHEMA = "$schema: https://azuremlschemas.azureedge.net/latest/{}.schema.json\n"
COMMAND = "command: echo\nenvironment: azureml:e:1\n"
FILES = {
    "pipeline.yml": (
        SCHEMA.format("pipelineJob") + "type: pipeline\ninputs: {a: 1}\noutputs: {b: null}\njobs: {}\n",
        "this is an Azure ML pipeline job, not a spec",
        "`worldsize check` or `worldsize run`",
    ),
    "bare.yml": (
        "type: pipeline\njobs:\n  train: {type: command, component: ./no.yml}\n",
        "this is an Azure ML pipeline job, not a spec",
        "`worldsize check` or `worldsize run`",
    ),
    "job.yml": (
        SCHEMA.format("commandJob") + COMMAND + "compute: azureml:c\n",
        "this is an Azure ML command job, not a spec",
        "`worldsize check` or `worldsize run`",
    ),
    "component.yml": (
        SCHEMA.format("commandComponent") + "type: command\nname: train\n" + COMMAND,
        "this is an Azure ML command component, not a spec",
        "use `worldsize check` for it",
    ),
    "schedule.yml": (
        SCHEMA.format("schedule") + "name: s\ntrigger: {type: cron, expression: '0 3 * * 1'}\n"
        "create_job: ./pipeline.yml\n",
        "this is an Azure ML schedule, not a spec",
        "use `worldsize check` for it",
    ),
    "endpoint.yml": (
        SCHEMA.format("managedOnlineEndpoint") + "name: e\nauth_mode: key\n",
        "this is an Azure ML online endpoint, not a spec",
        "use `worldsize check` for it",
    ),
    "workspace.yml": (
        SCHEMA.format("workspace") + "name: w\nlocation: westeurope\n",
        "this is an Azure ML file, not a spec",
        "use `worldsize check` for it",
    ),
    "worldsize.yml": (
        "severity: {}\n",
        "this is a worldsize settings file, not a spec",
        "use `worldsize check` for it",
    ),
}


@pytest.mark.parametrize("verb", ["plan", "compile"])
@pytest.mark.parametrize("name", FILES)
def test_one_diagnostic_says_what_the_file_is(name: str, verb: str, tmp_path: Path) -> None:
    text, message, advice = FILES[name]
    (tmp_path / name).write_text(text)
    out = tmp_path / "out"
    words = [verb, str(tmp_path / name), *(["-o", str(out)] if verb == "compile" else [])]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert result.output.count("error[") == 1
    assert f"error[WS116] {message}" in result.output
    assert advice in result.output
    assert not out.exists()


def test_the_python_verbs_raise_the_same(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(FILES["job.yml"][0])
    for verb in (worldsize.plan, lambda path: worldsize.compile(path, tmp_path / "out")):
        with pytest.raises(SpecError) as caught:
            verb(tmp_path / "job.yml")
        assert [found.code for found in caught.value.diagnostics] == ["WS116"]


def test_a_spec_with_faults_is_still_told_of_them(tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text("name: a\nsteps: {train: {uses: train_ddp}}\nstep: 1\n")
    result = CliRunner().invoke(main, ["plan", str(tmp_path / "spec.yml")])
    assert "WS101" in result.output
    assert "WS116" not in result.output
