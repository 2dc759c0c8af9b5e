"""Versions, labels, archive and conflicts of assets, as azure-ai-ml expects them of the service."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from management import ROOT, Management

from worldsize.serving.control import assets
from worldsize.serving.control.paths import StorePath, parse_store_path
from worldsize.serving.workspace import Scope

DATA = {"dataUri": "azureml://datastores/workspaceblobstore/paths/a/", "dataType": "uri_folder"}
SPEC = {"name": "train", "type": "command", "command": "python a.py", "inputs": {"lr": {"type": "number"}}}
CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], tuple[int, str]]] = [
    (
        "data",
        DATA,
        {**DATA, "dataUri": "https://x.blob.core.windows.net/c/b"},
        (400, "data uri cannot be changed"),
    ),
    ("data", DATA, {**DATA, "dataType": "uri_file"}, (400, "data uri cannot be changed")),
    (
        "models",
        {"modelUri": "https://a/b"},
        {"modelUri": "https://a/c"},
        (400, "Asset paths cannot be updated"),
    ),
    ("environments", {"image": "a"}, {"image": "b"}, (409, "is already registered and cannot be changed")),
    (
        "components",
        {"componentSpec": SPEC},
        {"componentSpec": {**SPEC, "command": "python b.py"}},
        (409, "is already registered and cannot be changed"),
    ),
    (  # the same command with changed code, which a client uploads under another name
        "components",
        {"componentSpec": {**SPEC, "code": "azureml:/codes/a/versions/1"}},
        {"componentSpec": {**SPEC, "code": "azureml:/codes/b/versions/1"}},
        (409, "is already registered and cannot be changed"),
    ),
]


def versions(management: Management, path: str) -> list[str]:
    return [each["name"] for each in management.get(path)["value"]]


def test_a_version_is_answered_as_it_was_put(management: Management) -> None:
    put = management.put("data/d/versions/1", {**DATA, "description": "x", "tags": {"n": 1, "t": True}}, 201)
    got = management.get("data/d/versions/1")
    assert got == put
    assert got["id"] == f"{ROOT}/data/d/versions/1"
    assert got["name"] == "1"
    assert got["properties"]["tags"] == {"n": "1", "t": "true"}
    assert got["properties"]["dataUri"] == (
        "azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/workspaceblobstore/paths/a/"
    )
    assert got["systemData"]["createdAt"]


def test_the_names_of_workspaces_share_one_workspace(management: Management) -> None:
    management.put("data/d/versions/1", DATA)
    other = ROOT.replace("/workspaces/w", "/workspaces/<AML_WORKSPACE_NAME>").replace(
        "resourceGroups", "resourcegroups"
    )
    assert management.get(f"{other}/DATA/d/Versions/1")["name"] == "1"


def test_next_and_latest_versions(management: Management) -> None:
    assert management.ask("GET", "data/d").status_code == 404
    for version in ("1", "7", "spring", "3"):
        management.put(f"data/d/versions/{version}", DATA)
    container = management.get("data/d")["properties"]
    assert (container["nextVersion"], container["latestVersion"]) == ("8", "3")
    assert container["dataType"] == "uri_folder"
    assert versions(management, "data/d/versions") == ["3", "spring", "7", "1"]
    assert versions(management, "data/d/versions?$top=1") == ["3"]
    assert management.get("data/d/labels/latest")["name"] == "3"
    assert management.ask("GET", "data/d/labels/other").status_code == 404


@pytest.mark.parametrize(("kind", "before", "after", "refusal"), CHANGES)
def test_what_is_fixed_cannot_change(
    management: Management,
    kind: str,
    before: dict[str, Any],
    after: dict[str, Any],
    refusal: tuple[int, str],
) -> None:
    management.put(f"{kind}/a/versions/1", {**before, "tags": {"old": "x"}}, 201)
    answer = management.ask("PUT", f"{kind}/a/versions/1", {"properties": after})
    assert answer.status_code == refusal[0]
    assert refusal[1] in answer.json()["error"]["message"]
    changed = management.put(
        f"{kind}/a/versions/1", {**before, "tags": {"new": "y"}, "description": "z"}, 200
    )
    assert changed["properties"]["tags"] == {"new": "y"}
    assert management.get(f"{kind}/a/versions/1")["properties"]["description"] == "z"


def test_an_anonymous_component_comes_again_with_another_body(management: Management) -> None:
    for command in ("python a.py", "python b.py"):
        spec = {**SPEC, "command": command}
        management.put(
            "components/azureml_anonymous/versions/h", {"componentSpec": spec, "isAnonymous": True}
        )
    stored = management.get("components/azureml_anonymous/versions/h")["properties"]["componentSpec"]
    assert stored["command"] == "python b.py"
    assert stored["version"] == "h"
    assert management.get("components")["value"] == []


def test_the_default_version_of_a_component_is_the_newest(management: Management) -> None:
    for version in ("1", "2"):
        management.put(f"components/train/versions/{version}", {"componentSpec": SPEC})
    assert management.get("components/train/versions/azureml_default")["name"] == "2"


def test_archived_versions_and_names_leave_the_lists(management: Management) -> None:
    for version in ("1", "2"):
        management.put(f"data/d/versions/{version}", DATA)
    management.put("data/d/versions/2", {**DATA, "isArchived": True})
    assert versions(management, "data/d/versions") == ["1"]
    assert versions(management, "data/d/versions?listViewType=ArchivedOnly") == ["2"]
    assert versions(management, "data/d/versions?listViewType=ALL") == ["2", "1"]
    assert management.get("data/d")["properties"]["latestVersion"] == "1"
    assert management.get("data/d/versions/2")["properties"]["isArchived"] is True
    management.put("data/d", {"isArchived": True})
    assert management.get("data")["value"] == []
    assert versions(management, "data?listViewType=ARCHIVED_ONLY") == ["d"]
    assert versions(management, "data/d/versions") == []
    management.put("data/d", {"isArchived": False})
    assert versions(management, "data/d/versions") == ["2", "1"]
    assert versions(management, "data") == ["d"]


def test_an_uploaded_code_is_found_by_its_hash_under_any_name(management: Management) -> None:
    properties = {"codeUri": "https://x/c/src", "properties": {"hash_sha256": "abc", "hash_version": 202208}}
    management.put("codes/first/versions/1", properties)
    found = management.get("codes/second/versions?hash=abc&hashVersion=202208")["value"]
    assert [each["id"] for each in found] == [f"{ROOT}/codes/first/versions/1"]
    assert management.get("codes/first/versions?hash=other")["value"] == []


def test_an_upload_has_the_same_container_each_time(management: Management) -> None:
    path = "codes/c/versions/1/startPendingUpload"
    answers = [management.ask("POST", path, {"pendingUploadType": "TemporaryBlobReference"}) for _ in "ab"]
    references = [answer.json()["blobReferenceForConsumption"] for answer in answers]
    assert references[0]["blobUri"] == references[1]["blobUri"]
    assert 3 <= len(urlsplit(references[0]["blobUri"]).path.strip("/")) <= 63
    sas = urlsplit(references[0]["credential"]["sasUri"])
    assert sas.query.count("sig=") == 1
    assert references[0]["credential"]["credentialType"] == "SAS"


def test_pages_hold_every_item_once(management: Management) -> None:
    for number in range(230):
        assets.put_version(management.workspace.database, "models", f"m{number:03}", "1", {"modelUri": "x"})
    found, path = [], "models"
    while path:
        document = management.get(path)
        found += [each["name"] for each in document["value"]]
        path = document.get("nextLink", "").removeprefix("https://management.azure.com")
    assert found == [f"m{number:03}" for number in range(230)]
    assert "nextLink" not in management.get("models?$top=5")


def test_names_are_checked(management: Management) -> None:
    for path in (
        "data/a b%2Fc/versions/1",
        "data/x/versions/a:b",
        "data/-/versions/1",
        "data/..%2F/versions/1",
    ):
        assert management.ask("PUT", path, {"properties": DATA}).status_code == 400


def test_curated_environments_are_there_and_nobody_else_may_use_their_names(management: Management) -> None:
    environment = management.get("environments/AzureML-sklearn-1.5/versions/9")["properties"]
    assert environment["environmentType"] == "Curated"
    assert (
        management.get("environments/AzureML-acpt-pytorch-2.8-cuda12.6")["properties"]["latestVersion"] == "1"
    )
    assert versions(management, "environments/AzureML-sklearn-1.5/versions?$top=1") == ["1"]
    answer = management.ask("PUT", "environments/AzureML-mine/versions/1", {"properties": {"image": "x"}})
    assert answer.status_code == 400


def test_an_environment_has_an_image_or_a_build(management: Management) -> None:
    for properties in ({}, {"image": "a", "build": {"contextUri": "https://a"}}, {"build": {"a": "b"}}):
        assert (
            management.ask("PUT", "environments/e/versions/1", {"properties": properties}).status_code == 400
        )
    built = management.put("environments/e/versions/1", {"build": {"contextUri": "https://a"}})
    assert built["properties"]["build"]["dockerfilePath"] == "Dockerfile"


def test_a_model_has_flavors(management: Management) -> None:
    model = management.put("models/m/versions/1", {"modelUri": "https://a/b", "modelType": "MLFLOW_MODEL"})
    assert model["properties"]["flavors"] == {}
    assert model["properties"]["modelType"] == "mlflow_model"


def test_deleting(management: Management) -> None:
    for version in ("1", "2"):
        management.put(f"data/d/versions/{version}", DATA)
    assert management.ask("DELETE", "data/d/versions/2").status_code == 200
    assert management.ask("DELETE", "data/d/versions/2").status_code == 204
    assert management.ask("DELETE", "data/d").status_code == 200
    assert management.ask("GET", "data/d").status_code == 404


def test_names_that_nobody_filled_in_are_quoted_in_addresses() -> None:
    place = StorePath("workspaceblobstore", "a/b.csv")
    assert place.long_form(Scope("<SUBSCRIPTION>", "my group", "w-1_(x).y")) == (
        "azureml://subscriptions/%3CSUBSCRIPTION%3E/resourcegroups/my%20group/workspaces/w-1_(x).y"
        "/datastores/workspaceblobstore/paths/a/b.csv"
    )
    assert parse_store_path(place.long_form(Scope("<s>", "<g>", "<w>"))) == place
