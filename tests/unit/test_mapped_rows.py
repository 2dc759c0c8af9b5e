"""Rows of data in a workspace are counted in the local file that ``worldsize.yml`` maps it to."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize
from worldsize import api
from worldsize.checking import check_spec

SPEC = """\
name: test
compute:
  cpu: {target: azureml:cpu, instance_type: Standard_D16s_v5}
  gpu: {target: azureml:gpu, instance_type: Standard_NC96ads_A100_v4}
steps:
  shard: {uses: shard_data, compute: cpu, with: {data: {type: uri_file, path: "%s"}}}
  train:
    uses: train_ddp
    compute: gpu
    with: {model: mlp, epochs: 2, optimizer: sgd}
    scale: {reference: {batch_size: 8, learning_rate: 0.1}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("x,label\n" + "".join(f"{each},{each % 2}\n" for each in range(1000)))
    return tmp_path


def count(project: Path, data: str, mapped: str) -> int | None:
    (project / "spec.yml").write_text(SPEC % data)
    (project / "worldsize.yml").write_text(f"assets: {{{mapped}: ./rows.csv}}\n")
    training = worldsize.plan("spec.yml").steps["train"].training
    assert training is not None
    return training.rows


@pytest.mark.parametrize(
    ("data", "mapped"),
    [
        ("azureml:churn@latest", '"azureml:churn@latest"'),
        ("azureml:churn@latest", "azureml:churn"),
        ("azureml:churn:3", "azureml:churn"),
        ("azureml://datastores/store/paths/rows.csv", '"azureml://datastores/store/paths/rows.csv"'),
    ],
)
def test_a_mapped_asset_is_counted_as_its_file(project: Path, data: str, mapped: str) -> None:
    assert count(project, data, mapped) == count(project, "./rows.csv", "azureml:other") == 800


def test_another_version_is_not_known(project: Path) -> None:
    assert count(project, "azureml:churn:3", '"azureml:churn:2"') is None
    assert count(project, "azureml:chur:3", "azureml:churn") is None


def test_time_and_cost_follow(project: Path) -> None:
    count(project, "azureml:churn@latest", "azureml:churn")
    forecast = api.forecast_steps(check_spec("spec.yml"))["train"]
    assert forecast.time.total_seconds is not None
