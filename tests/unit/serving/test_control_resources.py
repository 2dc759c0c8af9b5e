"""Computes, datastores, connections, registries, the workspace and what lies above it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from management import GROUP, ROOT, Management

from worldsize.serving.control.paths import project_settings
from worldsize.serving.jobs.submit import describe_project
from worldsize.serving.jobs.translate.body import References

STORE = {
    "datastoreType": "AzureBlob",
    "accountName": "account",
    "containerName": "abc",
    "credentials": {
        "credentialsType": "AccountKey",
        "secrets": {"secretsType": "AccountKey", "key": "hidden"},
    },
}
LOCATION = "/subscriptions/s/providers/Microsoft.MachineLearningServices/locations/eastus"


def cluster(size: str = "Standard_DS3_v2", **scale: Any) -> dict[str, Any]:
    return {"computeType": "AmlCompute", "properties": {"vmSize": size, "scaleSettings": scale}}


def names(management: Management, path: str) -> list[str]:
    return [each["name"] for each in management.get(path)["value"]]


def test_the_workspace_names_its_services(management: Management) -> None:
    workspace = management.get("")
    assert workspace["id"] == ROOT
    properties = workspace["properties"]
    assert properties["discoveryUrl"] == "https://eastus.api.azureml.ms/discovery"
    assert properties["mlFlowTrackingUri"] == f"azureml://eastus.api.azureml.ms/mlflow/v2.0{ROOT}"
    discovery = management.get("/discovery")
    assert {discovery[key] for key in ("api", "history", "mlflow")} == {"https://eastus.api.azureml.ms"}
    assert names(management, f"{GROUP}/workspaces") == ["local"]
    assert names(management, "/subscriptions/s/providers/Microsoft.MachineLearningServices/workspaces") == [
        "local"
    ]


def test_a_workspace_keeps_what_is_set_and_is_deleted_only_if_a_client_made_it(
    management: Management,
) -> None:
    changed = management.ask("PATCH", "", {"tags": {"a": "b"}, "properties": {"description": "x"}}).json()
    assert (changed["tags"], changed["properties"]["description"]) == ({"a": "b"}, "x")
    assert management.get(f"{GROUP}/workspaces/other")["tags"] == {}
    assert management.ask("DELETE", "").status_code == 202
    answer = management.ask("DELETE", "")
    assert answer.status_code == 400
    assert "stop the server and delete this folder" in answer.json()["error"]["message"]


def test_the_settings_of_a_folder_above_are_the_projects(management: Management) -> None:
    inside = management.workspace.project / "inside"
    inside.mkdir()
    (management.workspace.project / "worldsize.yml").write_text(
        "compute:\n  big: {instance_type: Standard_NC96ads_A100_v4}\n"
    )
    below = replace(management.workspace, project=inside)
    assert [each.name for each in project_settings(below).computes] == ["big"]
    (management.workspace.project / ".git").mkdir()
    (inside / "worldsize.yml").write_text("compute:\n  own: {instance_type: Standard_NC96ads_A100_v4}\n")
    assert "own" in [each.name for each in project_settings(below).computes]


def test_the_usual_clusters_and_the_projects_are_there(management: Management) -> None:
    assert names(management, "computes") == ["cpu-cluster", "gpu-cluster"]
    (management.workspace.project / "worldsize.yml").write_text(
        "compute:\n  big: {instance_type: Standard_NC96ads_A100_v4, max_instances: 4, tier: low_priority}\n"
        "  gpu-cluster: {instance_type: Standard_NC24ads_A100_v4}\n"
    )
    assert names(management, "computes") == ["big", "gpu-cluster", "cpu-cluster"]
    big = management.get("computes/BIG")["properties"]["properties"]
    assert (big["vmSize"], big["vmPriority"]) == ("Standard_NC96ads_A100_v4", "LowPriority")
    assert big["scaleSettings"]["maxNodeCount"] == 4
    assert management.ask("DELETE", "computes/big").status_code == 202
    assert management.ask("GET", "computes/big").status_code == 404
    management.put("computes/big", cluster(maxNodeCount=1), 201)
    assert management.get("computes/big")["properties"]["properties"]["vmSize"] == "Standard_DS3_v2"
    # One that is there for convenience is what the first client makes of it, but then stays so.
    management.put("computes/cpu-cluster", cluster(maxNodeCount=1), 201)
    assert management.get("computes/cpu-cluster")["properties"]["properties"]["vmSize"] == "Standard_DS3_v2"
    for name in ("cpu-cluster", "gpu-cluster"):
        refused = management.ask("PUT", f"computes/{name}", {"properties": cluster("Standard_D2_v2")})
        assert refused.status_code == 400


def test_a_cluster_is_made_scaled_and_deleted(management: Management) -> None:
    answer = management.ask("PUT", "computes/mine", {"properties": cluster(maxNodeCount=2)})
    assert answer.status_code == 201
    status = management.get(
        answer.headers["Azure-AsyncOperation"].removeprefix("https://management.azure.com")
    )
    assert status["status"] == "Succeeded"
    body = {"properties": {"properties": {"scaleSettings": {"minNodeCount": 0, "maxNodeCount": 5}}}}
    scaled = management.ask("PATCH", "computes/mine", body).json()["properties"]["properties"]
    assert (scaled["scaleSettings"]["maxNodeCount"], scaled["vmSize"]) == (5, "Standard_DS3_v2")
    resized = management.ask("PUT", "computes/mine", {"properties": cluster("Standard_D2_v2")})
    assert resized.status_code == 400
    assert management.ask("POST", "computes/mine/listNodes").json() == {"nodes": []}
    assert management.ask("POST", "computes/mine/start").status_code == 400
    assert management.ask("DELETE", "computes/mine").status_code == 202
    assert management.ask("DELETE", "computes/mine").status_code == 404


def test_a_compute_instance_starts_and_stops(management: Management) -> None:
    body = {"computeType": "ComputeInstance", "properties": {"vmSize": "Standard_DS3_v2"}}
    assert management.put("computes/ci", body, 201)["properties"]["properties"]["state"] == "Running"
    for action, state in (("stop", "Stopped"), ("start", "Running"), ("restart", "Running")):
        answer = management.ask("POST", f"computes/ci/{action}")
        assert answer.status_code == 202
        assert answer.headers["Location"]
        properties = management.get("computes/ci")["properties"]["properties"]
        assert (properties["state"], properties["lastOperation"]["operationName"]) == (state, action.title())


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "properties.computeType"),
        ({"computeType": "Moon"}, "properties.computeType"),
        ({"computeType": "AmlCompute"}, "properties.properties.vmSize"),
        (cluster(maxNodeCount="2"), "maxNodeCount"),
        (cluster(maxNodeCount=1, minNodeCount=2), "minNodeCount"),
        (cluster(nodeIdleTimeBeforeScaleDown="2 minutes"), "nodeIdleTimeBeforeScaleDown"),
        (cluster(nodeIdleTimeBeforeScaleDown="PT"), "nodeIdleTimeBeforeScaleDown"),
    ],
)
def test_a_wrong_compute_is_refused_by_its_key(management: Management, properties: Any, key: str) -> None:
    answer = management.ask("PUT", "computes/abc", {"properties": properties})
    assert answer.status_code == 400
    assert key in answer.json()["error"]["message"]


def test_the_name_of_a_compute_is_checked_and_may_be_a_placeholder_of_an_example(
    management: Management,
) -> None:
    for name in ("a", "1a", "a_b", "a" * 33, "<>"):
        assert management.ask("PUT", f"computes/{name}", {"properties": cluster()}).status_code == 400
    management.put("computes/<ATTACHED_SPARK_POOL_NAME>", cluster(), 201)
    assert "<ATTACHED_SPARK_POOL_NAME>" in names(management, "computes")


def test_sizes_and_quotas_are_those_of_the_catalogue(management: Management) -> None:
    sizes = {each["name"]: each for each in management.get(f"{LOCATION}/vmSizes")["value"]}
    size = sizes["STANDARD_NC96ADS_A100_V4"]
    assert (size["gpus"], size["vCPUs"], size["memoryGB"]) == (4, 96, 880.0)
    assert "STANDARD_NC6" not in sizes  # retired
    families = {each["name"]["value"] for each in management.get(f"{LOCATION}/usages")["value"]}
    assert {each["family"] for each in sizes.values()} == families
    assert {each["limit"] for each in management.get(f"{LOCATION}/quotas")["value"]} == {-1}


def test_the_sizes_of_the_project_are_listed_and_reach_its_jobs(management: Management) -> None:
    workspace = management.workspace
    sizes = {"Standard_ND256xyz_v9": {"gpus": 8, "vcpus": 256, "memory_gib": 2048.5}}
    (workspace.project / "worldsize.yml").write_text(json.dumps({"vm_sizes": sizes}))
    size = management.get(f"{LOCATION}/vmSizes")["value"][-1]
    assert (size["name"], size["gpus"], size["memoryGB"]) == ("STANDARD_ND256XYZ_V9", 8, 2048.5)
    management.put("computes/wide", cluster("STANDARD_ND256xyz_v9", maxNodeCount=3), 201)
    references = References(workspace)
    assert references.find_size("wide") == {"instance_type": "STANDARD_ND256xyz_v9", "max_instances": 3}
    assert references.find_size("gpu-cluster") is None  # nobody chose its size
    assert describe_project(workspace, references)["vm_sizes"] == sizes


def test_the_workspaces_datastores(management: Management) -> None:
    assert names(management, "datastores") == ["workspaceblobstore", "workspaceartifactstore"]
    assert names(management, "datastores?isDefault=true") == ["workspaceblobstore"]
    store = management.get("datastores/workspaceblobstore")["properties"]
    assert (store["accountName"], store["containerName"]) == ("worldsize", "azureml-blobstore")
    secrets = management.ask("POST", "datastores/workspaceblobstore/listSecrets", {"expirableSecret": True})
    assert secrets.json()["secretsType"] == "Sas"
    for method in ("PUT", "DELETE"):
        assert (
            management.ask(method, "datastores/workspaceblobstore", {"properties": STORE}).status_code == 400
        )


def test_a_datastore_keeps_its_secrets_apart(management: Management) -> None:
    answer = management.ask("PUT", "datastores/mine", {"properties": {**STORE, "isDefault": True}})
    assert answer.status_code == 201
    assert "hidden" not in answer.text
    assert "hidden" not in management.ask("GET", "datastores").text
    assert names(management, "datastores?isDefault=true") == ["mine"]
    for body in (None, {"expirableSecret": True}):
        secrets = management.ask("POST", "datastores/mine/listSecrets", body).json()
        assert secrets == {"secretsType": "AccountKey", "key": "hidden"}
    management.put("datastores/here", {**STORE, "accountName": "worldsize"}, 201)
    assert management.ask("POST", "datastores/here/listSecrets").json()["key"] == "hidden"
    expiring = management.ask("POST", "datastores/here/listSecrets", {"expirableSecret": True}).json()
    assert expiring["secretsType"] == "Sas"  # a key opens no blob of this workspace
    assert management.ask("DELETE", "datastores/here").status_code == 200
    assert management.ask("DELETE", "datastores/mine").status_code == 200
    answer = management.ask("GET", "datastores/mine")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "UserError"


def test_connections_answer_200_and_hide_their_credentials(management: Management) -> None:
    body = {"category": "Git", "target": "https://x", "authType": "PAT", "credentials": {"pat": "hidden"}}
    assert management.put("connections/git", body, 200)["properties"]["credentials"] is None
    assert "hidden" not in management.ask("GET", "connections").text
    secrets = management.ask("POST", "connections/git/listsecrets").json()
    assert secrets["properties"]["credentials"] == {"pat": "hidden"}
    assert names(management, "connections?category=git") == ["git"]
    assert names(management, "connections?category=s3") == []
    assert management.ask("DELETE", "connections/git").status_code == 200
    assert management.ask("GET", "connections/git").status_code == 404


def test_a_registry_shows_what_the_project_maps(management: Management) -> None:
    project = management.workspace.project
    (project / "worldsize.yml").write_text(
        "assets:\n  azureml://registries/azureml/models/bert/versions/3: ./bert\n"
        "  azureml://registries/team/components/train/labels/latest: ./train.yml\n"
    )
    (project / "bert").mkdir()
    (project / "bert" / "MLmodel").write_text("")
    (project / "train.yml").write_text("name: train\ntype: command\ncommand: python a.py\n")
    registry = f"{GROUP}/registries/azureml"
    model = management.get(f"{registry}/models/bert/versions/3")
    assert model["id"] == "azureml://registries/azureml/models/bert/versions/3"
    assert model["properties"]["modelType"] == "mlflow_model"
    assert management.get(f"{registry}/models/bert")["properties"]["latestVersion"] == "3"
    assert names(management, f"{registry}/models") == ["bert"]
    spec = management.get(f"{GROUP}/registries/team/components/train/versions/1")["properties"][
        "componentSpec"
    ]
    assert spec["command"] == "python a.py"
    missing = management.ask("GET", f"{registry}/models/gpt/versions/1")
    assert missing.status_code == 404
    assert "under `assets:` of `worldsize.yml`" in missing.json()["error"]["message"]
    assert "sklearn-1.5" in names(management, f"{registry}/environments")
    assert management.ask("PUT", f"{registry}/models/x/versions/1", {}).status_code == 403
    discovered = management.get("/registrymanagement/v1.0/registries/azureml/discovery")
    assert discovered["primaryRegionResourceProviderUri"] == "https://eastus.api.azureml.ms/"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("onlineEndpoints", "does not offer online endpoints"),
        ("featuresets", "does not offer feature stores"),
        ("nothingKnown", "does not offer `nothingknown`"),
    ],
)
def test_what_is_not_offered_is_said(management: Management, kind: str, words: str) -> None:
    answer = management.ask("GET", f"{kind}/x")
    assert answer.status_code == 404
    assert words in answer.json()["error"]["message"]


def test_what_lies_above_a_workspace(management: Management) -> None:
    assert management.get("/subscriptions")["value"][0]["state"] == "Enabled"
    assert management.get("/subscriptions/abc")["subscriptionId"] == "abc"
    assert management.get("/subscriptions/abc/resourceGroups/g")["name"] == "g"
    assert names(management, "/subscriptions/abc/resourceGroups") == ["worldsize"]
    assert names(management, "/subscriptions/abc/locations") == ["eastus"]
    assert management.get("/providers/Microsoft.MachineLearningServices/operations") == {"value": []}
    workspace = management.get("")["properties"]
    assert management.get(workspace["keyVault"])["type"] == "Microsoft.KeyVault/vaults"
    assert management.ask("DELETE", workspace["storageAccount"]).status_code == 204
    assert management.ask("GET", "/subscriptions/abc/other").status_code == 404
    assert management.ask("PUT", "/subscriptions/abc/resourceGroups/g", {}).status_code == 405


def test_what_only_azure_has_is_an_empty_list_or_refused_in_a_sentence(management: Management) -> None:
    for prefix in ("", "/genericasset", "/genericasset/v2.0", "/mferp/managementfrontend"):
        assert management.get(f"{prefix}{ROOT}/indexes") == {"value": []}
        assert management.get(f"{prefix}{ROOT}/indexes/i/versions") == {"value": []}
    for path in ("indexes/i", "indexes/i/versions/1"):
        error = management.get(f"/genericasset{ROOT}/{path}", 404)["error"]
        assert error["message"] == "worldsize serve does not offer search indexes."
    assert management.ask("PUT", f"/genericasset{ROOT}/indexes/i/versions/1", {}).status_code == 400


@pytest.mark.parametrize("path", ["datastores", "computes", "connections", "jobs", "schedules", "data", ""])
def test_a_method_that_a_path_does_not_have_is_refused(management: Management, path: str) -> None:
    answer = management.ask("POST", path, {})
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "path", ["datastores/a", "computes/a", "connections/a", "jobs/a", "schedules/a", "data/a"]
)
def test_an_action_that_there_is_not_is_refused_by_its_name(management: Management, path: str) -> None:
    answer = management.ask("POST", f"{path}/explode", {})
    assert answer.status_code == 404
    assert "`explode`" in answer.json()["error"]["message"]
