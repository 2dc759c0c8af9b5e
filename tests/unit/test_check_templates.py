"""What a placeholder, a script or code beside a file explains is no fault; everything else still is."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize.documents.errors import SpecError

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: ls ${{inputs.rows}}
inputs:
  rows: {type: uri_folder, path: ./raw/rows}
environment: azureml:sklearn:3
compute: azureml:cpu-cluster
"""


def codes(path: Path) -> list[str]:
    return [each.code for each in worldsize.check(path).diagnostics]


@pytest.mark.parametrize(
    ("name", "script", "provided"),
    [
        ("fetch.sh", "curl -sSL https://example.com/raw.tar | tar -x raw", True),
        ("fetch.py", 'os.makedirs("raw", exist_ok=True)', True),
        ("fetch.sh", 'DATA_DIR="raw"', True),
        ("train.py", 'rows = pd.read_csv("raw/rows/a.csv")', False),
        ("fetch.sh", "curl -sSL https://example.com/raw-images.tar -o drawn", False),
        ("notes.md", "Download the rows into raw/rows.", False),
    ],
)
def test_data_that_a_script_fetches_is_not_missing(
    name: str, script: str, provided: bool, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "job.yml").write_text(JOB)
    (tmp_path / name).write_text(script)
    assert codes(tmp_path) == ([] if provided else ["WS501"])


@pytest.mark.parametrize(("script", "provided"), [("fetch.py", True), ("train.py", False)])
def test_a_file_of_a_table_that_a_script_writes_is_not_missing(
    script: str, provided: bool, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "job.yml").write_text(
        JOB.replace("type: uri_folder, path: ./raw/rows", "type: mltable, path: rows")
    )
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "MLTable").write_text("paths:\n- file: ./a.parquet\n")
    verb = "to_parquet" if provided else "read_parquet"
    (tmp_path / script).write_text(f'table.{verb}("rows/a.parquet")')
    assert codes(tmp_path) == ([] if provided else ["WS539"])


@pytest.mark.parametrize(
    ("ignored", "present", "provided"),
    [
        ("raw/*", (), True),
        ("raw/*", ("raw/images",), False),
        ("rows/", ("raw/images",), True),  # a missing folder is ignored as well
        ("images/", ("raw/images",), False),
    ],
)
def test_what_git_ignores_is_missing_only_beside_others_that_are_there(
    ignored: str, present: tuple[str, ...], provided: bool, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text(f"{ignored}\n")
    (tmp_path / "job.yml").write_text(JOB)
    for folder in present:
        (tmp_path / folder).mkdir(parents=True)
    assert codes(tmp_path) == ([] if provided else ["WS501"])


@pytest.mark.parametrize("placeholder", ["<your environment>", "CHANGE_ME_ENVIRONMENT", "'{{environment}}'"])
def test_a_placeholder_hides_nothing_but_what_it_causes(placeholder: str, tmp_path: Path) -> None:
    text = JOB.replace("azureml:sklearn:3", placeholder) + "distribution: {type: torch}\n"
    (tmp_path / "job.yml").write_text(text.replace("./raw/rows", "azureml:rows:1"))
    assert codes(tmp_path / "job.yml") == ["WS014", "WS143"]


def test_a_secret_counts_in_a_template_too(tmp_path: Path) -> None:
    key = "DefaultEndpointsProtocol=https;AccountName=<name>;AccountKey=" + "Zm9vYmFy" * 10 + "Zm9vYg=="
    text = JOB.replace("./raw/rows", "azureml:rows:1") + f"environment_variables: {{STORE: {key!r}}}\n"
    (tmp_path / "job.yml").write_text(text)
    assert "WS801" in codes(tmp_path / "job.yml")


def test_a_spec_to_be_planned_must_be_filled_in(tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text("name: {{ name }}\nsteps:\n  train: {uses: train_ddp}\n")
    with pytest.raises(SpecError):
        worldsize.plan(tmp_path / "spec.yml")


def test_a_component_that_a_job_names_needs_no_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    component = (
        "type: command\nname: Count-Rows\nversion: 1\ncommand: echo 1\nenvironment: azureml:sklearn:3\n"
    )
    (tmp_path / "component.yml").write_text(component)
    assert codes(tmp_path) == ["WS156"]
    pipeline = (
        "type: pipeline\nsettings: {default_compute: azureml:cpu}\njobs:\n  a: {component: ./component.yml}\n"
    )
    (tmp_path / "pipeline.yml").write_text(pipeline)
    assert codes(tmp_path) == []


def test_a_pipeline_of_azure_devops_is_not_ours(tmp_path: Path) -> None:
    step = "- script: az ml job create --set environment=azureml:e:1\n   bad\n- task: x: y\n"
    text = f"pool: {{vmImage: ubuntu-latest}}\nsteps:\n{step}"
    (tmp_path / "azure-pipelines.yml").write_text(text)
    assert codes(tmp_path) == []


@pytest.mark.parametrize("folder", [r"C:\data\rows", r"file:C:\data\rows", "D:/data/rows"])
def test_nothing_is_known_of_a_path_on_a_windows_machine(folder: str, tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(JOB.replace("./raw/rows", f"'{folder}'"))
    assert codes(tmp_path / "job.yml") == []


@pytest.mark.parametrize("instances", ["3", "1"])
def test_the_count_of_the_2021_preview_counts(instances: str, tmp_path: Path) -> None:
    text = JOB.replace("./raw/rows", "azureml:rows:1").replace(
        "compute: azureml:cpu-cluster",
        f"compute: {{target: azureml:cpu-cluster, instance_count: {instances}}}",
    )
    (tmp_path / "job.yml").write_text(text + "distribution: {type: tensorflow, worker_count: 3}\n")
    assert ("WS208" in codes(tmp_path / "job.yml")) == (instances == "1")


@pytest.mark.parametrize(
    ("name", "found"), [("component_template.yml", []), ("component.yml", ["WS141", "WS141", "WS156"])]
)
def test_what_a_template_lacks_is_filled_in_where_it_is_used(
    name: str, found: list[str], tmp_path: Path
) -> None:
    schema = "$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json"
    (tmp_path / name).write_text(f"{schema}\ntype: command\noutputs:\n  rows: {{type: uri_folder}}\n")
    assert codes(tmp_path) == found
