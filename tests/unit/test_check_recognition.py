"""Which files with ``steps:`` are specs, and which are other tools'."""

from __future__ import annotations

import pytest

from worldsize.checking.discover import recognise_kind
from worldsize.yaml import load

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
