"""One model registry: what MLflow registers is an asset of the workspace, and the other way round.

The versions of an asset are any text, MLflow's are numbers: a version that is a number is in both, of every
type, so that neither gives a number away that the other has. Both sides are compared whenever either is
asked; a version that both had before and only one has now was deleted.
"""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import yaml

from worldsize.base import untrusted
from worldsize.serving.control import assets, paths
from worldsize.serving.control.paths import StorePath
from worldsize.serving.database import contained, milliseconds_of, texts_of, time_of
from worldsize.serving.errors import ServiceError
from worldsize.serving.storage.artifacts import find_artifact, parts_below, path_of_file_uri
from worldsize.serving.workspace import ARTIFACT_STORE, BLOB_STORE, CONTAINERS, Workspace
from worldsize.tracking.database import DATABASE, open_to_write
from worldsize.tracking.versions import (
    ModelVersion,
    change_version,
    read_versions,
    remove_version,
    write_version,
)

KIND = "models"
NUMBER = re.compile(r"[1-9][0-9]{0,8}")  # as MLflow has versions

Key = tuple[str, str]


def sync_for(workspace: Workspace, reference: str) -> None:
    """Bring both registries to the same state, where a reference may be that of a model."""
    name = paths.parse_asset(reference)
    if name is not None and name.kind in ("", KIND):
        sync_models(workspace)


def sync_models(workspace: Workspace) -> None:
    """Bring both registries to the same state."""
    if not (workspace.home.root / DATABASE).exists():
        return
    with workspace.database.transaction() as connection, open_to_write(workspace.home.root) as registry:
        theirs = read_versions(registry)
        ours = _read_keys(connection)
        mirrored = _read_mirrored(connection)
        keys = theirs.keys() | ours | mirrored.keys()
        # The oldest first: what is added last is the newest version.
        for key in sorted(keys, key=lambda key: (theirs[key].created if key in theirs else 0, key)):
            with contained("model", ":".join(key)):
                asset = assets.get_version(workspace.database, KIND, *key) if key in ours else None
                before = mirrored.get(key)
                base = _compare(workspace, registry, theirs.get(key), asset, before)
                if base != before:
                    _write_mirrored(connection, key, base)


def _compare(
    workspace: Workspace,
    registry: sqlite3.Connection,
    theirs: ModelVersion | None,
    ours: assets.Asset | None,
    base: str | None,
) -> str | None:
    """Bring one version to the same state; what both say of it then, None if neither has it.

    ``base`` is what both sides said of it before.
    """
    if theirs is not None and ours is not None:
        return _merge(workspace, registry, theirs, ours, base)
    if theirs is not None and base is not None:  # the workspace has deleted it
        remove_version(registry, theirs.name, theirs.version)
    elif theirs is not None:
        _add_asset(workspace, theirs)
        return _words(theirs)
    elif ours is not None and base is not None:  # MLflow has deleted it
        assets.delete_version(workspace.database, KIND, ours.name, ours.version)
    elif ours is not None:
        write_version(registry, _as_version(ours, _location(workspace, ours)))
        return _words(_as_version(ours))
    return None


def _merge(
    workspace: Workspace,
    registry: sqlite3.Connection,
    theirs: ModelVersion,
    ours: assets.Asset,
    base: str | None,
) -> str:
    """Carry a change of the description or the tags over; MLflow's counts if both were changed."""
    version = _as_version(ours)
    if _words(theirs) == _words(version):
        return _words(theirs)
    if _words(theirs) == base:
        change_version(registry, version)
        return _words(version)
    words = {"description": theirs.description or None, "tags": dict(theirs.tags)}
    properties = {**ours.properties, **words, "isArchived": ours.archived}
    modified = time_of(theirs.modified)
    assets.put_version(workspace.database, KIND, ours.name, ours.version, properties, modified=modified)
    return _words(theirs)


def _words(version: ModelVersion) -> str:
    """What both sides say of a version and either can change."""
    return json.dumps([version.description or "", dict(version.tags)], sort_keys=True)


def _as_version(asset: assets.Asset, location: str = "") -> ModelVersion:
    tags = texts_of(asset.properties, "tags")
    description = asset.properties.get("description")
    times = milliseconds_of(asset.created), milliseconds_of(asset.modified)
    return ModelVersion(asset.name, asset.version, location, asset.job, description, tags, *times)


def _location(workspace: Workspace, asset: assets.Asset) -> str:
    """The files of an asset, as MLflow loads them without the workspace."""
    uri = str(asset.properties.get("modelUri", ""))
    try:
        path = paths.local_path(workspace, uri)
    except ServiceError:
        return uri
    return uri if path is None else path.absolute().as_uri()


def _add_asset(workspace: Workspace, version: ModelVersion) -> None:
    path = path_of_file_uri(version.location)
    flavors = None if path is None else _read_flavors(path)
    properties: dict[str, Any] = {
        "description": version.description or None,
        "tags": dict(version.tags),
        "properties": {},
        "isAnonymous": False,
        "modelUri": _model_uri(workspace, version.location, path),
        "modelType": "custom_model" if flavors is None else "mlflow_model",
        "flavors": flavors or {},
        "stage": None,
        "provisioningState": "Succeeded",
    }
    query = "SELECT name FROM jobs WHERE name = ?"
    job = workspace.database.connection.execute(query, (version.run,)).fetchone()
    assets.put_version(
        workspace.database,
        KIND,
        version.name,
        version.version,
        properties,
        job=None if job is None else str(job["name"]),
        created=time_of(version.created),
        modified=time_of(version.modified),
    )


def _model_uri(workspace: Workspace, location: str, path: Path | None) -> str:
    """Where clients find the model: a path in a datastore, or what MLflow was told."""
    if path is None:
        return location
    uploaded = parts_below(workspace.home.blobs / CONTAINERS[BLOB_STORE], path)
    if uploaded:
        return StorePath(BLOB_STORE, "/".join(uploaded)).long_form(workspace.scope)
    name = find_artifact(workspace.home, path)
    return location if name is None else StorePath(ARTIFACT_STORE, name).long_form(workspace.scope)


def _read_keys(connection: sqlite3.Connection) -> set[Key]:
    """The assets whose versions are numbers."""
    rows = connection.execute("SELECT name, version FROM assets WHERE kind = ?", (KIND,))
    return {(row["name"], row["version"]) for row in rows if NUMBER.fullmatch(row["version"])}


def _read_mirrored(connection: sqlite3.Connection) -> dict[Key, str]:
    rows = connection.execute("SELECT name, version, base FROM mirrored_models")
    return {(row["name"], row["version"]): row["base"] for row in rows}


def _write_mirrored(connection: sqlite3.Connection, key: Key, base: str | None) -> None:
    connection.execute("DELETE FROM mirrored_models WHERE name = ? AND version = ?", key)
    if base is not None:
        connection.execute("INSERT INTO mirrored_models VALUES (?, ?, ?)", (*key, base))


MAX_BYTES = 1 << 20  # of an MLmodel file that is read


def _read_flavors(model: Path) -> dict[str, dict[str, dict[str, str]]] | None:
    """The flavors in ``MLmodel``, with their settings as text; None if the folder holds no MLflow model."""
    try:
        document = yaml.safe_load(untrusted.read_text(model / "MLmodel", MAX_BYTES))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    flavors = document.get("flavors") if isinstance(document, dict) else None
    if not isinstance(flavors, dict):
        return None
    return {str(name): {"data": _settings(flavor)} for name, flavor in flavors.items()}


def _settings(flavor: object) -> dict[str, str]:
    """The settings that are single values."""
    if not isinstance(flavor, dict):
        return {}
    return {
        str(name): str(value)
        for name, value in flavor.items()
        if value is not None and not isinstance(value, dict | list)
    }
