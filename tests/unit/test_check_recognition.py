"""Which files with ``steps:`` are specs or other tools', and which kinds of Azure ML's are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.checking.discover import recognise_kind
from worldsize.documents.yaml import load

OTHERS = {
    "a configuration of a script": (
        "azure_ml: {compute: {vm_size: STANDARD_DS3_V2}}\n"
        "steps:\n  prepare:\n    script: prepare.py\n    environment: prepare-env\n"
        "    inputs: {rows: {type: uri_folder, path: azureml://datastores/raw/paths/rows/}}\n"
    ),
    "Azure DevOps": "trigger: [main]\nsteps:\n- script: az ml job create --set compute=azureml:x",
    "Codefresh": "version: '1.0'\nsteps:\n  clone: {type: git-clone, repo: a/b}\n  build: {type: build}",
    "Woodpecker": "steps:\n  build: {image: golang, commands: [go build]}",
    "CWL": "cwlVersion: v1.2\nsteps:\n  echo: {run: echo.cwl, in: {m: m}, out: [out]}",
    "MLSpec": "name: x\ndata: y\nsteps:\n  train: {moduleName: PythonScriptStep, cmd: python train.py}",
}
SPECS = {
    "whole": "name: x\ncompute: {gpu: {target: azureml:g}}\nsteps:\n  train: {uses: train_ddp}",
    "no compute": "name: x\nsteps:\n  train: {uses: train_ddp}",
    "own command": "name: x\nsteps:\n  train: {command: python train.py, code: src}",
    "steps without a key": "name: x\ncompute: {gpu: {target: gpu}}\nsteps:\n  train:",
    "misspelt compute": "name: x\ncomptue: {gpu: {target: azureml:g}}\nsteps:\n  train: {use: train_ddp}",
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("tool", OTHERS)
def test_steps_of_other_tools_are_passed_over(tool: str, *, named: bool) -> None:
    assert recognise_kind(load("steps.yml", OTHERS[tool]), named=named) is None


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_is_one_also_with_a_fault(spec: str, *, named: bool) -> None:
    assert recognise_kind(load("steps.yml", SPECS[spec]), named=named) == "spec"


def test_a_spec_that_is_named_may_lack_more() -> None:
    document = load("spec.yml", "name: x\nsteps:\n  train: {use: train_ddp}")
    assert recognise_kind(document, named=True) == "spec"
    assert recognise_kind(document, named=False) is None


def test_files_of_kinds_that_are_not_checked_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = "$schema: https://azuremlschemas.azureedge.net/latest"
    (tmp_path / "model.yml").write_text(f"{schema}/model.schema.json\nname: m\npath: azureml:x:1\n")
    (tmp_path / "space.yml").write_text(f"{schema}/workspace.schema.json\nname: w\n")

    report = worldsize.check(["."])

    assert (report.files, report.passed_over) == (("model.yml",), ("space.yml",))
    assert str(report) == "nothing found in 1 file; 1 file of other Azure ML kinds is not checked"
    assert 'tests="1"' in report.render("junit")


def test_a_script_with_a_space_in_its_name_needs_quotes(tmp_path: Path) -> None:
    (tmp_path / "my train.py").touch()
    job = tmp_path / "job.yml"
    found = {}
    for command in (
        "python my train.py",
        "python -u 'my train.py'",
        "python run my train.py",
        "python my  train.py",
    ):
        job.write_text(
            f"type: command\ncommand: {command} --epochs 3\ncode: .\ncompute: azureml:cpu\n"
            "environment: azureml:pytorch-training:7\n"
        )
        report = worldsize.check([str(job)])
        found[command] = [(each.message, each.help) for each in report.diagnostics if each.code == "WS524"]
    assert found.pop("python my train.py") == [
        ("the shell splits `my train.py` and starts `my`", "write `'my train.py'`")
    ]
    assert not any(found.values())


def test_a_deployment_is_checked_with_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blue.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/managedOnlineDeployment.schema.json\n"
        "name: blue\nendpoint_name: digits\ninstance_type: Standard_NC24s_v99\ninstance_counts: 1\n"
        "model: {path: ./digits, type: mlflow_model}\n"
        "code_configuration: {code: ./src, scoring_script: score.py}\n"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()

    found = {each.code for each in worldsize.check(["."]).diagnostics}

    assert found == {"WS140", "WS201", "WS501", "WS524"}
