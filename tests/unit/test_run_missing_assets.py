"""What to do about an asset that a job of the local workspace names and nobody has registered."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.running.prepare.assets import AssetMap, read_asset_map


@pytest.mark.parametrize(
    ("text", "what", "type_", "lines"),
    [
        (
            "azureml:houses:9",
            "data",
            "uri_file",
            [
                "`az ml data create --name houses --version 9 --type uri_file --path ./houses`",
                '`client.data.create_or_update(Data(name="houses", version="9", type="uri_file",',
                ' path="./houses"))`',
            ],
        ),
        ("azureml:houses@latest", "data", None, ["--name houses --type uri_folder --path ./houses`"]),
        (
            "azureml:net:2",
            "data",
            "mlflow_model",
            [
                "`az ml model create --name net --version 2 --type mlflow_model",
                "client.models.create_or_update(Model(",
            ],
        ),
        ("azureml:prep:1", "component", None, ["`az ml component create -f component.yml`"]),
        (
            "azureml://datastores/blob/paths/new",
            "data",
            None,
            ["write `azureml://datastores/blob/paths/new: ./new` under `assets:` of the `worldsize.yml`"],
        ),
    ],
)
def test_what_a_workspace_lacks_is_registered_there(
    text: str, what: str, type_: str | None, lines: list[str]
) -> None:
    help_ = AssetMap(in_workspace=True).missing(text, what, type_)
    assert [line for line in lines if line not in help_] == []
    assert "--map" not in help_  # an option of `run`


def test_a_job_of_the_local_workspace_is_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "serve" / "jobs" / "calm_rice"
    folder.mkdir(parents=True)
    assert "register it" in read_asset_map(folder / "pipeline.yml").missing("azureml:houses:9")
    assert "--map" in read_asset_map(tmp_path / "pipeline.yml").missing("azureml:houses:9")
