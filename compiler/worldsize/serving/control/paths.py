"""Where the data of a reference lies on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from worldsize.running.prepare.assets import AssetEntry, AssetMap
from worldsize.serving.control import assets
from worldsize.serving.control.project import project_settings
from worldsize.serving.control.uris import (
    AssetName,
    container_of,
    parse_asset,
    parse_blob,
    parse_output,
    parse_store_path,
)
from worldsize.serving.database import Database
from worldsize.serving.home import Home
from worldsize.serving.storage.files import locate
from worldsize.serving.workspace import Workspace

_URIS = {"codes": "codeUri", "data": "dataUri", "models": "modelUri"}
_BY_NAME = ("data", "models", "codes")  # where a reference without a kind is looked for, in this order
_HOPS = 5  # of assets whose address is an asset

Find = Callable[[Workspace, str, AssetName], assets.Asset | None]  # by kind and name


def find_asset(workspace: Workspace, kind: str, name: AssetName) -> assets.Asset | None:
    """The version that a reference names, the newest if it names none.

    Models are as they were when MLflow's registry was last read:
    ``worldsize.serving.tracking.models.find_asset`` reads it first.
    """
    if name.version is None:
        return assets.get_latest(workspace.database, kind, name.name)
    return assets.get_version(workspace.database, kind, name.name, name.version)


def local_path(workspace: Workspace, uri: str, find: Find = find_asset) -> Path | None:
    """The file or folder of a reference; it may not exist. None if it is not of this workspace.

    The project's ``assets:`` come first, because a line there is meant for this machine.

    Args:
        workspace: The workspace.
        uri: An ``azureml:`` form, the id of an asset, the output of a job, or the address of a blob.
        find: How assets are found: a job also sees the models that MLflow registered since.

    Raises:
        ServiceError: 400, it leads outside the home, or names a job that does not exist.
    """
    for _ in range(_HOPS):
        mapped = project_assets(workspace).local(uri)
        if mapped is not None:
            return mapped
        asset = find_data(workspace, uri, find)
        if asset is None:
            break
        uri = asset.properties[_URIS[asset.kind]]
    place = parse_output(workspace, uri)
    if place is not None:
        uri = place.long_form(workspace.scope)
    found = datastore_path(workspace.home, workspace.database, uri)
    if found is None and (blob := parse_blob(workspace, uri)) is not None:
        found = locate(workspace.home, *blob)
    return found


def datastore_path(home: Home, database: Database, uri: str) -> Path | None:
    """The file or folder of a path in a datastore; None if it is none, or its datastore does not exist.

    Raises:
        ServiceError: 400, it leads outside the home.
    """
    place = parse_store_path(uri)
    container = None if place is None else container_of(database, place.store)
    return None if place is None or container is None else locate(home, container, place.path)


def find_data(workspace: Workspace, reference: str, find: Find = find_asset) -> assets.Asset | None:
    """The code, data or model asset of a reference; None if there is none or the text is something else."""
    name = parse_asset(reference)
    if name is None:
        return None
    kinds = (name.kind,) if name.kind else _BY_NAME
    found = (find(workspace, kind, name) for kind in kinds if kind in _URIS)
    return next((asset for asset in found if asset is not None), None)


def project_assets(workspace: Workspace) -> AssetMap:
    """The ``assets:`` of the project's ``worldsize.yml`` as it is now."""
    entries = [
        AssetEntry(asset.reference, asset.path.absolute(), asset.span)
        for asset in project_settings(workspace).assets
    ]
    return AssetMap(entries)


def asset_entries(workspace: Workspace) -> list[tuple[str, Path]]:
    """The lines of ``assets:``: reference and path."""
    return [(asset.reference, asset.path.absolute()) for asset in project_settings(workspace).assets]
