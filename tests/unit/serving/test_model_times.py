"""When a version of a model was made and changed: MLflow's registry and the workspace say the same."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from worldsize.serving.control import assets
from worldsize.serving.tracking import models
from worldsize.serving.workspace import Workspace
from worldsize.tracking import versions
from worldsize.tracking.database import DATABASE, open_to_write

# The columns of MLflow's tables that are read and written here.
TABLES = """
CREATE TABLE registered_models (name TEXT PRIMARY KEY, creation_time INT, last_updated_time INT);
CREATE TABLE model_versions (
    name TEXT, version INT, creation_time INT, last_updated_time INT, description TEXT, current_stage TEXT,
    source TEXT, storage_location TEXT, run_id TEXT, status TEXT, PRIMARY KEY (name, version));
CREATE TABLE model_version_tags (name TEXT, version INT, key TEXT, value TEXT);
CREATE TABLE registered_model_aliases (name TEXT, alias TEXT, version INT);
"""
ADD = (
    "INSERT INTO model_versions (name, version, creation_time, last_updated_time, current_stage, source)"
    " VALUES ('digits', ?, ?, ?, 'None', '/models/m')"
)


@pytest.fixture
def registry(workspace: Workspace) -> Path:
    """MLflow's database, in which nine is older than ten."""
    path = workspace.home.root / DATABASE
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
        connection.execute(ADD, (9, 1_700_000_000_500, 1_700_000_060_000))
        connection.execute(ADD, (10, 1_700_000_120_000, 1_700_000_120_000))
    connection.close()
    return path


def times(workspace: Workspace, version: str) -> tuple[str, str]:
    asset = assets.get_version(workspace.database, "models", "digits", version)
    assert asset is not None
    return asset.created, asset.modified


def test_the_workspace_has_the_times_of_mlflow(workspace: Workspace, registry: Path) -> None:
    models.sync_models(workspace)
    assert times(workspace, "9") == ("2023-11-14T22:13:20.500000Z", "2023-11-14T22:14:20.000000Z")
    container = assets.get_container(workspace.database, "models", "digits")
    assert container is not None
    assert container.created == "2023-11-14T22:13:20.500000Z"


def test_the_newest_version_is_that_which_was_made_last(workspace: Workspace, registry: Path) -> None:
    models.sync_models(workspace)
    newest = assets.get_latest(workspace.database, "models", "digits")
    assert newest is not None
    assert newest.version == "10"


def test_a_change_has_the_time_of_the_change(workspace: Workspace, registry: Path) -> None:
    models.sync_models(workspace)
    with sqlite3.connect(registry) as connection:
        connection.execute(
            "UPDATE model_versions SET description = 'good', last_updated_time = 1700000180000"
            " WHERE version = 9"
        )
    connection.close()
    models.sync_models(workspace)
    assert times(workspace, "9") == ("2023-11-14T22:13:20.500000Z", "2023-11-14T22:16:20.000000Z")


def test_mlflow_has_the_times_of_the_workspace(workspace: Workspace, registry: Path) -> None:
    made = assets.put_version(
        workspace.database, "models", "digits", "11", {}, created="2024-01-01T00:00:00.250000Z"
    )
    models.sync_models(workspace)
    assets.put_version(
        workspace.database,
        "models",
        "digits",
        "11",
        {"description": "better"},
        modified="2024-01-02T00:00:00Z",
    )
    models.sync_models(workspace)
    with open_to_write(workspace.home.root) as connection:
        version = versions.read_versions(connection)["digits", "11"]
    assert (version.created, version.modified) == (1_704_067_200_250, 1_704_153_600_000)
    assert times(workspace, "11")[0] == made.created


def test_a_model_whose_address_names_a_model_is_registered(workspace: Workspace, registry: Path) -> None:
    properties = {"modelUri": "azureml:other:1"}
    assets.put_version(workspace.database, "models", "digits", "11", properties)
    models.sync_models(workspace)
    with open_to_write(workspace.home.root) as connection:
        assert ("digits", "11") in versions.read_versions(connection)
