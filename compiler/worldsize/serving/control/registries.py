"""Registries, which can only be read.

They hold what ``assets:`` maps by ``azureml://registries/…``, and ``azureml`` the curated environments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from worldsize.base import untrusted
from worldsize.facts import curated
from worldsize.serving.control.assets import CURATED_IMAGES, KINDS
from worldsize.serving.control.call import CREATED, Call, JsonObject, describe_resource, describe_times
from worldsize.serving.control.paths import project_settings
from worldsize.serving.errors import ServiceError, not_found
from worldsize.serving.workspace import LOCATION, Workspace

_REFERENCE = re.compile(
    r"azureml://registries/(?P<registry>[^/]+)/(?P<kind>[a-z]+)/(?P<name>[^/]+)"
    r"(?:/(?:versions|labels)/(?P<version>[^/]+))?/?"
)
_BASIC: JsonObject = {"description": None, "tags": {}, "properties": {}, "isArchived": False}  # of an asset


@dataclass(frozen=True, slots=True)
class RegistryAsset:
    """An asset of a registry that this machine knows."""

    registry: str
    kind: str
    name: str
    version: str
    path: Path | None  # None for a curated environment


def handle(call: Call) -> object:
    """Answer a request for a registry or what it holds; ``call.scope.workspace`` is the registry's name."""
    if call.method != "GET":
        raise ServiceError(
            403,
            "Forbidden",
            f"The registry {call.scope.workspace} is read-only: `worldsize serve` only shows the assets that"
            " `assets:` of `worldsize.yml` maps.",
        )
    if not call.kind:
        return _describe_registry(call)
    if call.kind not in KINDS:
        raise not_found(f"`{call.kind}` of registries")
    assets = [
        asset
        for asset in list_assets(call.workspace)
        if (asset.registry, asset.kind) == (call.scope.workspace.lower(), call.kind)
        and call.name.lower() in ("", asset.name.lower())
    ]
    if not call.name:
        names = {asset.name: asset for asset in assets}
        return {"value": [_describe_container(call, asset) for asset in names.values()]}
    if call.versions and not call.version:
        return {"value": [_describe(call, asset) for asset in assets]}
    if assets and not call.version and not call.label:
        return _describe_container(call, assets[-1])
    chosen = [asset for asset in assets if asset.version in (call.version, "*")] or (
        assets[-1:] if call.label == "latest" else []
    )
    if chosen:
        version = call.version if chosen[-1].version == "*" and call.version else chosen[-1].version
        return _describe(call, replace(chosen[-1], version=version))
    by = f"versions/{call.version}" if call.version else f"labels/{call.label or 'latest'}"
    reference = f"azureml://registries/{call.scope.workspace}/{call.kind}/{call.name}/{by}"
    message = f"`{reference}` was not found: write a local path for it under `assets:` of `worldsize.yml`."
    raise ServiceError(404, "ResourceNotFound", message)


def list_assets(workspace: Workspace) -> Iterator[RegistryAsset]:
    """What the project maps, and the curated environments. The version ``*`` stands for each."""
    for asset in project_settings(workspace).assets:
        if (match := _REFERENCE.fullmatch(asset.reference)) is not None:
            registry, kind = match["registry"].lower(), match["kind"].lower()
            version = "1" if match["version"] == "latest" else match["version"] or "*"
            yield RegistryAsset(registry, kind, match["name"], version, asset.path.absolute())
    for name in curated.names():
        yield RegistryAsset("azureml", "environments", name, "*", None)


def _describe_registry(call: Call) -> JsonObject:
    return {
        "id": f"{call.scope.id.rpartition('/workspaces/')[0]}/registries/{call.scope.workspace}",
        "name": call.scope.workspace,
        "type": "Microsoft.MachineLearningServices/registries",
        "location": LOCATION,
        "tags": {},
        "identity": None,
        "properties": {
            "publicNetworkAccess": "Enabled",
            "discoveryUrl": None,
            "intellectualPropertyPublisher": None,
            "managedResourceGroup": None,
            "mlFlowRegistryUri": None,
            "regionDetails": [{"location": LOCATION, "acrDetails": [], "storageAccountDetails": []}],
        },
        "systemData": describe_times(CREATED, CREATED),
    }


def describe_discovery(workspace: Workspace, name: str) -> JsonObject:
    """What ``registrymanagement`` says of a registry: where its assets are asked for."""
    base = workspace.endpoints.api
    return {
        "registryName": name,
        "id": str(uuid5(NAMESPACE_URL, name)),
        "location": LOCATION,
        "subscriptionId": workspace.scope.subscription,
        "resourceGroup": workspace.scope.group,
        "primaryRegionResourceProviderUri": f"{base}/",
        "resourceProviderUri": f"{base}/",
        "registryFqdns": {LOCATION: {"uri": base}},
        "properties": {},
    }


def _describe_container(call: Call, asset: RegistryAsset) -> JsonObject:
    version = "1" if asset.version == "*" else asset.version
    properties = {
        **_BASIC,
        "latestVersion": version,
        "nextVersion": None,
        **({"dataType": "uri_folder"} if asset.kind == "data" else {}),
    }
    return describe_resource(call, (asset.kind, asset.name), properties)


def _describe(call: Call, asset: RegistryAsset) -> JsonObject:
    version = "1" if asset.version == "*" else asset.version
    path = (asset.kind, asset.name, "versions", version)
    uri = "/".join(("azureml://registries", call.scope.workspace, *path))
    return describe_resource(call, path, {**_BASIC, "isAnonymous": False, **_content(asset, uri)})


def _content(asset: RegistryAsset, uri: str) -> JsonObject:
    folder = asset.path is not None and asset.path.is_dir()
    if asset.kind == "data":
        return {"dataUri": uri, "dataType": "uri_folder" if folder else "uri_file"}
    if asset.kind == "models":
        mlflow = asset.path is not None and (asset.path / "MLmodel").is_file()
        return {"modelUri": uri, "modelType": "mlflow_model" if mlflow else "custom_model", "flavors": {}}
    if asset.kind == "environments":
        return {"image": CURATED_IMAGES + asset.name, "osType": "Linux", "environmentType": "Curated"}
    if asset.kind == "components" and asset.path is not None:
        return {"componentSpec": _read_component(asset.path)}
    return {"codeUri": uri}


def _read_component(path: Path) -> JsonObject:
    import yaml

    try:
        spec = yaml.safe_load(untrusted.read_bytes(path))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ServiceError(
            400, "UserError", f"`{path}`, which `assets:` maps, cannot be read: {error}"
        ) from None
    if not isinstance(spec, dict):
        raise ServiceError(400, "UserError", f"`{path}`, which `assets:` maps, is not a component.")
    return spec
