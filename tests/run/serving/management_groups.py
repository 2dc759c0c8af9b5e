"""What a client of the workspace does, one function for each operation group of azure-ai-ml.

Run by `test_management_client.py` as a program inside a server's environment.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.ai.ml import Input, MLClient, load_component
from azure.ai.ml.entities import (
    AccountKeyConfiguration,
    AmlCompute,
    AzureBlobDatastore,
    BuildContext,
    ComputeInstance,
    Data,
    Environment,
    FqdnDestination,
    Model,
    PatTokenConfiguration,
    Workspace,
    WorkspaceConnection,
)
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.identity import DefaultAzureCredential

COMPONENT = """
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: train
version: 1
display_name: Train
type: command
inputs:
  data: {type: uri_folder}
  rate: {type: number, default: 0.1, min: 0, max: 1}
  steps: {type: integer, optional: true}
outputs:
  model: {type: uri_folder}
code: ./inner
environment: azureml:AzureML-sklearn-1.5@latest
command: python a.py --rate ${{inputs.rate}} $[[--steps ${{inputs.steps}}]]
"""


def refused(kind: type[HttpResponseError], act: Callable[[], object]) -> HttpResponseError:
    """The error that an action must raise, with the fields of the service's errors."""
    with pytest.raises(kind) as caught:
        act()
    assert caught.value.error is not None
    assert caught.value.error.code
    assert caught.value.message
    return caught.value


def workspaces(client: MLClient, folder: Path) -> None:
    workspace = client.workspaces.get()
    assert workspace.name == "<AML_WORKSPACE_NAME>"
    assert workspace.location
    assert workspace.discovery_url
    assert workspace.mlflow_tracking_uri.startswith("azureml://")
    assert [each.name for each in client.workspaces.list(scope="subscription")] == ["local"]
    made = client.workspaces.begin_create(Workspace(name="other", tags={"a": "b"})).result()
    assert made.tags["a"] == "b"
    changed = client.workspaces.begin_update(Workspace(name="other", description="new")).result()
    assert changed.description == "new"
    client.workspaces.get_keys()
    client.workspaces.begin_diagnose("other").result()
    client.workspaces.begin_delete("other", delete_dependent_resources=True).result()
    error = refused(
        HttpResponseError, lambda: client.workspaces.begin_delete("w", delete_dependent_resources=False)
    )
    assert error.status_code == 400
    assert "worldsize serve" in error.message


def computes(client: MLClient, folder: Path) -> None:
    cluster = client.compute.get("cpu-cluster")
    assert cluster.size == "STANDARD_D2_V2"
    assert cluster.max_instances == 4
    assert refused(ResourceNotFoundError, lambda: client.compute.get("none")).status_code == 404
    mine = AmlCompute(
        name="mine",
        size="Standard_DS3_v2",
        max_instances=2,
        idle_time_before_scale_down=120,
        tier="low_priority",
    )
    made = client.compute.begin_create_or_update(mine).result()
    assert (made.tier, made.max_instances, made.idle_time_before_scale_down) == ("low_priority", 2, 120)
    made.max_instances = 3
    assert client.compute.begin_update(made).result().max_instances == 3
    assert list(client.compute.list_nodes("mine")) == []
    client.compute.begin_create_or_update(ComputeInstance(name="notebook", size="Standard_DS3_v2")).result()
    client.compute.begin_stop("notebook").wait()
    assert client.compute.get("notebook").state == "Stopped"
    client.compute.begin_start("notebook").wait()
    client.compute.begin_restart("notebook").wait()
    kinds = {each.name: each.type for each in client.compute.list()}
    assert kinds["mine"] == "amlcompute"
    assert kinds["notebook"] == "computeinstance"
    assert {each.type for each in client.compute.list(compute_type="AMLCompute")} == {"amlcompute"}
    assert client.compute.list_sizes(compute_type="AmlCompute")
    assert list(client.compute.list_usage())
    client.compute.begin_delete("mine").wait()
    refused(ResourceNotFoundError, lambda: client.compute.get("mine"))


def data(client: MLClient, folder: Path) -> None:
    first = client.data.create_or_update(
        Data(name="table", path=str(folder / "inner" / "a.csv"), type="uri_file", tags={"a": "b"})
    )
    assert first.version == "1"
    assert first.path.startswith("azureml://subscriptions/")
    assert (
        client.data.create_or_update(Data(name="table", path=str(folder), type="uri_folder")).version == "2"
    )
    assert client.data.get("table", label="latest").version == "2"
    changed = client.data.get("table", "1")
    changed.description = "new"
    assert client.data.create_or_update(changed).description == "new"
    moved = Data(
        name="table", version="1", path="azureml://datastores/workspaceblobstore/paths/x", type="uri_file"
    )
    error = refused(HttpResponseError, lambda: client.data.create_or_update(moved))
    assert (error.status_code, error.error.code) == (400, "UserError")
    client.data.archive("table", "1")
    assert [each.version for each in client.data.list("table")] == ["2"]
    client.data.restore("table", "1")
    client.data.archive("table")
    assert list(client.data.list()) == []
    client.data.restore("table")
    assert [(each.name, each.latest_version) for each in client.data.list()] == [("table", "2")]
    (folder / "inner" / "MLTable").write_text("type: mltable\npaths:\n  - file: ./a.csv\n")
    assert (
        client.data.create_or_update(Data(name="m", path=str(folder / "inner"), type="mltable")).version
        == "1"
    )
    refused(ResourceNotFoundError, lambda: client.data.get("none", "1"))


def models(client: MLClient, folder: Path) -> None:
    made = client.models.create_or_update(Model(name="model", path=str(folder), type="custom_model"))
    assert made.version == "1"
    assert not made.flavors
    again = client.models.create_or_update(Model(name="model", path=str(folder), type="custom_model"))
    assert again.version == "2"
    assert client.models.get("model", label="latest").version == "2"
    client.models.download("model", "2", download_path="downloaded")
    assert [each.name for each in Path("downloaded").rglob("a.csv")] == ["a.csv"]
    made.description, made.stage = "new", "Production"
    assert client.models.create_or_update(made).stage == "Production"
    client.models.archive("model", "1")
    assert [each.version for each in client.models.list("model")] == ["2"]
    assert "model" in [each.name for each in client.models.list()]
    short = Model(name="short", path="azureml://datastores/workspaceblobstore/paths/x", type="custom_model")
    assert client.models.create_or_update(short).path.startswith("azureml://subscriptions/")


def environments(client: MLClient, folder: Path) -> None:
    image = Environment(name="env", image="mcr.microsoft.com/a")
    assert client.environments.create_or_update(image).version == "1"
    assert (
        client.environments.create_or_update(Environment(name="env", image="mcr.microsoft.com/a")).version
        == "1"
    )
    assert (
        client.environments.create_or_update(Environment(name="env", image="mcr.microsoft.com/b")).version
        == "2"
    )
    other = Environment(name="env", version="1", image="mcr.microsoft.com/c")
    assert (
        refused(ResourceExistsError, lambda: client.environments.create_or_update(other)).status_code == 409
    )
    (folder / "Dockerfile").write_text("FROM python:3.12\n")
    built = client.environments.create_or_update(
        Environment(name="built", build=BuildContext(path=str(folder)))
    )
    assert built.build.dockerfile_path == "Dockerfile"
    client.environments.archive("built")
    assert [each.name for each in client.environments.list()] == ["env"]
    assert client.environments.get("AzureML-sklearn-1.5", label="latest").image


def components(client: MLClient, folder: Path) -> None:
    source = folder / "component.yml"
    source.write_text(COMPONENT)
    assert client.components.create_or_update(load_component(source)).version == "1"
    assert (
        client.components.create_or_update(load_component(source)).version == "1"
    )  # its code is found again
    changed = load_component(source)
    changed.command = "python b.py"
    assert (
        refused(ResourceExistsError, lambda: client.components.create_or_update(changed)).status_code == 409
    )
    changed.version = None
    assert client.components.create_or_update(changed).version == "2"
    assert client.components.get("train").version == "2"
    train = client.components.get("train", "1")
    assert train.inputs["steps"]["optional"]
    assert train.display_name == "Train"
    assert train(data=Input(type="uri_folder", path="azureml://datastores/workspaceblobstore/paths/x"))
    client.components.archive("train", "2")
    assert [each.version for each in client.components.list("train")] == ["1"]
    refused(ResourceNotFoundError, lambda: client.components.get("none", "1"))


def datastores_and_connections(client: MLClient, folder: Path) -> None:
    assert client.datastores.get_default().name == "workspaceblobstore"
    credentials = AccountKeyConfiguration(account_key="key")
    store = AzureBlobDatastore(name="mine", account_name="a", container_name="abc", credentials=credentials)
    assert client.datastores.create_or_update(store).container_name == "abc"
    assert client.datastores.get("mine", include_secrets=True).credentials == store.credentials
    client.datastores.delete("mine")
    assert refused(ResourceNotFoundError, lambda: client.datastores.get("mine")).status_code == 404
    refused(HttpResponseError, lambda: client.datastores.delete("workspaceblobstore"))
    git = WorkspaceConnection(
        name="git", type="git", target="https://x/y", credentials=PatTokenConfiguration(pat="token")
    )
    assert client.connections.create_or_update(git).name == "git"
    assert [each.name for each in client.connections.list(connection_type="git")] == ["git"]
    client.connections.delete("git")
    refused(ResourceNotFoundError, lambda: client.connections.get("git"))
    rules = client.workspace_outbound_rules
    rules.begin_create("w", FqdnDestination(name="rule", destination="a.example.org")).result()
    assert [each.name for each in rules.list("w")] == ["rule"]
    rules.begin_remove("w", "rule").wait()


def registries(client: MLClient, folder: Path) -> None:
    registry = MLClient(DefaultAzureCredential(), registry_name="azureml")
    assert registry.environments.get("sklearn-1.5", label="latest").id.startswith(
        "azureml://registries/azureml"
    )
    assert registry.models.get("bert", "3").version == "3"
    assert [each.name for each in registry.models.list()] == ["bert"]
    error = refused(ResourceNotFoundError, lambda: registry.models.get("none", "1"))
    assert "worldsize.yml" in error.message
    assert client.registries.get("azureml").name == "azureml"
    refused(HttpResponseError, lambda: client.online_endpoints.get("x"))
    assert list(client.online_endpoints.list()) == []


GROUPS = (
    workspaces,
    computes,
    data,
    models,
    environments,
    components,
    datastores_and_connections,
    registries,
)


def main() -> None:
    """Run every group in the working folder, and print a JSON object: what went wrong in each."""
    client = MLClient(
        DefaultAzureCredential(), "<SUBSCRIPTION_ID>", "<RESOURCE_GROUP>", "<AML_WORKSPACE_NAME>"
    )
    folder = Path("data")
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "a.csv").write_text("a,b\n1,2\n")
    faults = {group.__name__: find_fault(group, client, folder) for group in GROUPS}
    print(json.dumps({name: fault for name, fault in faults.items() if fault}))


def find_fault(group: Callable[[MLClient, Path], None], client: MLClient, folder: Path) -> str:
    """What went wrong in a group; pytest's failures are no `Exception`."""
    try:
        group(client, folder)
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    main()
