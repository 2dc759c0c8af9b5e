"""Models, data, components and environments: names with their newest version, and all versions of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.serving.control import assets as stored
from worldsize.serving.control.assets import Asset
from worldsize.serving.control.paths import local_path
from worldsize.serving.database import mapping_of, text_of, texts_of, use_each
from worldsize.serving.errors import ServiceError
from worldsize.serving.tracking.models import sync_models
from worldsize.serving.workspace import Workspace
from worldsize.tracking.versions import read_marks

KINDS = ("models", "data", "components", "environments")
LIMIT = 500  # names of one kind, or versions of one name


class Version(Struct, frozen=True):
    """A version of an asset; ``job`` is the name of the job that made it."""

    kind: str
    name: str
    version: str
    created: str
    type: str = ""
    description: str = ""
    uri: str = ""
    job: str | None = None
    marks: tuple[str, ...] = ()  # aliases of a model as `@alias`, and its stage
    tags: Mapping[str, str] = {}
    properties: Mapping[str, Any] = {}
    count: int = 1  # of the versions of the name, in a list of names


def list_assets(workspace: Workspace, kind: str, text: str = "") -> Iterator[Version]:
    """The names of a kind whose name contains ``text``, the newest first: those that can be read."""
    _take_models(workspace, kind)
    rows = stored.select_newest(workspace.database, kind, text.strip().lower(), LIMIT)
    return use_each(
        stored.word(kind), rows, lambda row: _read_version(stored.read_asset(row), count=row["versions"])
    )


def list_versions(workspace: Workspace, kind: str, name: str) -> list[Version]:
    """The versions of a name, the newest :data:`LIMIT` first."""
    _take_models(workspace, kind)
    marks = read_marks(workspace.home.root, name) if kind == "models" else {}
    versions = stored.list_versions(workspace.database, kind, name, limit=LIMIT)
    return [
        *use_each(
            stored.word(kind), versions, lambda asset: _read_version(asset, marks.get(asset.version, ()))
        )
    ]


def find_version(workspace: Workspace, kind: str, name: str, version: str) -> Version | None:
    """One version of a name; None if there is none."""
    asset = stored.get_version(workspace.database, kind, name, version)
    return None if asset is None or asset.archived else _read_version(asset)


def _take_models(workspace: Workspace, kind: str) -> None:
    """Models may have been registered in MLflow since; whoever asks first brings them over."""
    if kind == "models":
        sync_models(workspace)


def short_location(uri: str) -> str:
    """``azureml://datastores/{store}/paths/{path}`` in place of the form that names the workspace too."""
    start, separator, rest = uri.partition("/datastores/")
    return f"azureml://datastores/{rest}" if separator and start.startswith("azureml://") else uri


def local_folder(workspace: Workspace, uri: str) -> Path | None:
    """Where the content of an asset lies on this machine, by a reference or by MLflow's own source."""
    if uri.startswith(("file://", "/")):
        return Path(uri.removeprefix("file://"))
    try:
        return local_path(workspace, uri)
    except ServiceError:  # of a job that is gone, or it leads elsewhere
        return None


def _read_version(asset: Asset, marks: Iterable[str] = (), count: int = 1) -> Version:
    properties = asset.properties
    spec = mapping_of(properties, "componentSpec")
    kind = text_of(properties, "modelType") or text_of(properties, "dataType") or text_of(spec, "type")
    return Version(
        kind=asset.kind,
        name=asset.name,
        version=asset.version,
        created=asset.created,
        type=kind,
        description=text_of(properties, "description") or text_of(spec, "description"),
        uri=text_of(properties, "modelUri") or text_of(properties, "dataUri"),
        job=asset.job or text_of(properties, "jobName") or None,
        marks=tuple(marks) or tuple(filter(None, [text_of(properties, "stage")])),
        tags=texts_of(properties, "tags"),
        properties=properties,
        count=count,
    )
