"""References to assets and data become paths of this machine, none outside the home."""

from __future__ import annotations

from pathlib import Path

import pytest
from management import Management

from worldsize.serving.control.call import parse_resource, split_path
from worldsize.serving.control.paths import datastore_path, local_path, parse_asset
from worldsize.serving.errors import ServiceError

LONG = "azureml://subscriptions/s/resourcegroups/g/workspaces/w"
ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


def add_job(management: Management, name: str) -> None:
    management.workspace.database.connection.execute(
        "INSERT INTO jobs (name, root, type, display_name, experiment, status, properties, created)"
        " VALUES (?, ?, 'Command', '', '', 'Completed', '{}', '')",
        (name, name),
    )


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("azureml://datastores/workspaceblobstore/paths/a/b.csv", "azureml-blobstore/a/b.csv"),
        (f"{LONG}/datastores/WorkspaceBlobStore/paths/a", "azureml-blobstore/a"),
        ("azureml://datastores/workspaceartifactstore/paths/x", "azureml/x"),
        ("azureml://datastores/workspaceblobstore", "azureml-blobstore"),
        ("azureml://datastores/mine/paths/x", "abc/x"),
        ("https://worldsize.blob.core.windows.net/abc/a%20b/c?sig=x", "abc/a b/c"),
        ("azureml://jobs/j/outputs/model/paths/sub", "azureml-blobstore/azureml/j/model/sub"),
        ("azureml://jobs/j/outputs/artifacts/paths/model/", "azureml/ExperimentRun/dcid.j/model"),
        ("runs:/j/model", "azureml/ExperimentRun/dcid.j/model"),
        ("azureml:d:1", "azureml-blobstore/one"),
        ("azureml:d@latest", "azureml-blobstore/two"),
        (f"{ID}/data/d/versions/1", "azureml-blobstore/one"),
        (f"azureml:{ID}/data/d/labels/latest", "azureml-blobstore/two"),
        (f"{LONG}/data/d/versions/1", "azureml-blobstore/one"),
        ("azureml:m:1", "azureml-blobstore/azureml/j/model"),
    ],
)
def test_references_have_paths(management: Management, uri: str, place: str) -> None:
    add_job(management, "j")
    store = {"datastoreType": "AzureBlob", "accountName": "a", "containerName": "abc"}
    management.put("datastores/mine", {**store, "credentials": {"credentialsType": "None"}})
    for version, path in (("1", "one"), ("2", "two")):
        uri_ = f"azureml://datastores/workspaceblobstore/paths/{path}"
        management.put(f"data/d/versions/{version}", {"dataUri": uri_})
    model = management.put("models/m/versions/1", {"modelUri": "azureml://jobs/j/outputs/model/paths/"})
    assert model["properties"]["modelUri"] == f"{LONG}/datastores/workspaceblobstore/paths/azureml/j/model/"
    assert local_path(management.workspace, uri) == management.workspace.home.blobs / place


@pytest.mark.parametrize(
    "uri",
    [
        "azureml:none:1",
        "azureml:d@other",
        "azureml://datastores/none/paths/x",
        "https://example.org/a",
        "https://other.blob.core.windows.net/abc/a",
        "wasbs://a@b/c",
        "",
        "a/b",
        f"{ID}/environments/e/versions/1",
    ],
)
def test_what_is_not_of_the_workspace_has_no_path(management: Management, uri: str) -> None:
    assert local_path(management.workspace, uri) is None


@pytest.mark.parametrize(
    "uri",
    [
        "azureml://datastores/workspaceblobstore/paths/../../workspace.db",
        "azureml://jobs/j/outputs/../paths/../../../../x",
        "azureml://datastores/workspaceblobstore/paths/out/passwd",
        "https://worldsize.blob.core.windows.net/abc/%2e%2e/%2e%2e/workspace.db",
        "https://worldsize.blob.core.windows.net/../x",
        "azureml://jobs/none/outputs/model",
    ],
)
def test_no_reference_leads_outside(management: Management, uri: str) -> None:
    add_job(management, "j")
    folder = management.workspace.home.blobs / "azureml-blobstore"
    folder.mkdir()
    (folder / "out").symlink_to("/etc")
    with pytest.raises(ServiceError) as caught:
        local_path(management.workspace, uri)
    assert caught.value.status == 400


def test_the_projects_assets_come_first(management: Management) -> None:
    project = management.workspace.project
    (project / "worldsize.yml").write_text(
        "assets:\n  azureml:d@latest: ./here\n  azureml://datastores/cloud/paths/x: ./x\n"
    )
    (project / "here").mkdir()
    (project / "x").mkdir()
    management.put("data/d/versions/1", {"dataUri": "azureml://datastores/workspaceblobstore/paths/a"})
    assert local_path(management.workspace, "azureml:d@latest") == project / "here"
    assert local_path(management.workspace, f"{LONG}/datastores/cloud/paths/x/y") == project / "x" / "y"


def test_a_chain_of_assets_ends(management: Management) -> None:
    management.put("data/d/versions/1", {"dataUri": "azureml:d:1"})
    assert local_path(management.workspace, "azureml:d:1") is None


def test_datastore_paths_need_no_workspace(management: Management) -> None:
    home, database = management.workspace.home, management.workspace.database
    uri = "azureml://datastores/workspaceblobstore/paths/x"
    assert datastore_path(home, database, uri) == home.blobs / "azureml-blobstore" / "x"
    assert datastore_path(home, database, "https://a/b") is None


def test_asset_references_are_taken_apart() -> None:
    assert parse_asset("azureml:a:1") == parse_asset("a:1")
    name = parse_asset(f"azureml:{ID}/components/train/labels/latest")
    assert name is not None
    assert (name.kind, name.name, name.version) == ("components", "train", None)
    assert parse_asset("azureml://registries/r/components/c/versions/1") is None


def test_paths_are_read_in_any_case_and_decoded_segment_by_segment() -> None:
    raw = b"/SUBSCRIPTIONS/a%20b/resourcegroups/g/Providers/microsoft.machinelearningSERVICES/workspaces/w"
    path = parse_resource(split_path(raw + b"/Data/x%2Fy/VERSIONS/1/ListSecrets"))
    assert path is not None
    assert (path.scope.subscription, path.kind, path.name, path.version) == ("a b", "data", "x/y", "1")
    assert path.action == "listsecrets"
    assert parse_resource(split_path(b"/subscriptions/a")) is None
    with pytest.raises(ServiceError):
        split_path(b"/a/%ff")
    with pytest.raises(ServiceError):
        split_path(b"/a/%00")


def test_a_missing_project_file_is_no_fault(management: Management, tmp_path: Path) -> None:
    management.workspace.project = tmp_path / "gone"
    assert local_path(management.workspace, "azureml:x:1") is None
