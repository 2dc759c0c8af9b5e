"""The addresses of data (the forms of ``azureml:``, the blobs of this workspace), and where it lies here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from worldsize.checking import discover
from worldsize.checking.settings import Settings, read_settings
from worldsize.documents import yaml
from worldsize.running.model.assets import AssetEntry, AssetMap
from worldsize.serving.control import assets
from worldsize.serving.control.assets import get_resource
from worldsize.serving.database import Database, text_of
from worldsize.serving.errors import bad_request
from worldsize.serving.home import Home
from worldsize.serving.storage.artifacts import run_blob_path
from worldsize.serving.storage.files import locate
from worldsize.serving.workspace import ARTIFACT_STORE, BLOB_STORE, CONTAINERS, Scope, Workspace

_STORE_OR_OUTPUT = re.compile(
    r"azureml://(?:subscriptions/[^/]+/resourcegroups/[^/]+/(?:providers/[^/]+/)?workspaces/[^/]+/)?"
    r"(?:datastores/(?P<store>[^/]+)|jobs/(?P<job>[^/]+)/outputs/(?P<output>[^/]+))(?:/paths/?(?P<path>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_RUN = re.compile(r"runs:/{1,3}(?P<job>[^/]+)/(?P<path>.*)", re.DOTALL)
_ASSET_ID = re.compile(
    r"(?:(?:azureml:/{0,2})?/?subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+|"
    r"azureml://(?:subscriptions/[^/]+/resourcegroups|locations)/[^/]+)/workspaces/[^/]+/"
    r"(?P<kind>codes|components|data|environments|models)/(?P<name>[^/]+)"
    r"/(?:versions/(?P<version>[^/]+)|labels/(?P<label>[^/]+))",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:azureml:)?(?P<name>[^/:@]+)(?::(?P<version>[^/:@]+)|@(?P<label>[^/:@]+))")


@dataclass(frozen=True, slots=True)
class StorePath:
    """A path in a datastore."""

    store: str
    path: str

    def long_form(self, scope: Scope) -> str:
        """The form that names the workspace, which the service answers and clients take apart.

        Names such as `<WORKSPACE>`, which examples leave to be filled in, are quoted: they are not part of an
        address.
        """
        names = (scope.subscription, scope.group, scope.workspace)
        subscription, group, workspace = (quote(name, safe="()") for name in names)
        return (
            f"azureml://subscriptions/{subscription}/resourcegroups/{group}"
            f"/workspaces/{workspace}/datastores/{self.store}/paths/{self.path}"
        )


@dataclass(frozen=True, slots=True)
class AssetName:
    """A reference to an asset; ``kind`` is empty if the text does not say it."""

    kind: str
    name: str
    version: str | None  # None for the newest


def parse_store_path(uri: str) -> StorePath | None:
    """The datastore and path of ``azureml://…datastores/{store}/paths/{path}``, in its short or long form."""
    match = _STORE_OR_OUTPUT.fullmatch(uri)
    return StorePath(match["store"], match["path"] or "") if match is not None and match["store"] else None


def parse_asset(reference: str) -> AssetName | None:
    """The asset of ``azureml:name:version``, ``name@latest`` or an id; None for anything else."""
    match = _ASSET_ID.fullmatch(reference) or _NAMED.fullmatch(reference)
    if match is None or match["label"] not in (None, "latest"):  # the only label that the service keeps
        return None
    return AssetName((match.groupdict().get("kind") or "").lower(), match["name"], match["version"])


def _parse_output(workspace: Workspace, uri: str) -> StorePath | None:
    """Where an output of a job or a file of a run lies; None if the address is of something else."""
    if (run := _RUN.fullmatch(uri)) is not None:
        return run_path(run["job"], run["path"])
    match = _STORE_OR_OUTPUT.fullmatch(uri)
    if match is None or match["store"]:
        return None
    job, output, path = match["job"], match["output"], match["path"] or ""
    if output.lower() == "artifacts":
        return run_path(job, path)
    query = "SELECT 1 FROM jobs WHERE name = ?"
    if workspace.database.connection.execute(query, (job,)).fetchone() is None:
        raise bad_request(f"`{uri[:300]}` names the job `{job}`, which does not exist.")
    return output_path(job, output, path)


def output_path(job: str, output: str, path: str = "") -> StorePath:
    """Where an output of a job lies, or with an empty path the folder of it."""
    return StorePath(BLOB_STORE, f"azureml/{job}/{output}/{path}")


def run_path(run: str, path: str) -> StorePath:
    """Where a file of a run lies."""
    return StorePath(ARTIFACT_STORE, run_blob_path(run, "") + f"/{path}")


def expand_uri(workspace: Workspace, scope: Scope, uri: str) -> str:
    """The form in which the service keeps the address of an asset: short and job forms become long ones.

    Raises:
        ServiceError: 400, it is the output of a job that does not exist.
    """
    place = parse_store_path(uri) or _parse_output(workspace, uri)
    return uri if place is None else place.long_form(scope)


def _parse_blob(workspace: Workspace, uri: str) -> tuple[str, str] | None:
    """Container and path of the address of a blob in this workspace, with or without a signature."""
    parts = urlsplit(uri)
    endpoint = urlsplit(workspace.endpoints.blob)
    if parts.scheme not in ("http", "https") or parts.hostname != endpoint.hostname:
        return None
    if not parts.path.startswith(endpoint.path):
        return None
    container, _, rest = unquote(parts.path.removeprefix(endpoint.path)).lstrip("/").partition("/")
    return (container, rest) if container else None


def _container_of(database: Database, store: str) -> str:
    """The container of a datastore; empty if there is no such datastore, or it is not of blobs."""
    if (container := CONTAINERS.get(store.lower())) is not None:
        return container
    resource = get_resource(database, "datastores", store)
    body = {} if resource is None else resource.body
    return text_of(body, "containerName") or text_of(body, "filesystem")


def project_settings(workspace: Workspace) -> Settings:
    """The settings of the folder in which the server was started; empty ones without a file."""
    folder = str(workspace.project)
    path = discover.find_settings(folder, discover.find_tree(folder))
    try:
        return Settings() if path is None else _read(path, Path(path).stat().st_mtime_ns)
    except OSError:  # deleted meanwhile
        return Settings()


@lru_cache(maxsize=4)
def _read(path: str, _changed: int) -> Settings:
    return read_settings(yaml.load(Path(path)))


# Where a reference without a kind is looked for, in this order.
_URIS = {"data": "dataUri", "models": "modelUri", "codes": "codeUri"}
_HOPS = 5  # of assets whose address is an asset


def find_asset(database: Database, kind: str, name: AssetName) -> assets.Asset | None:
    """The version that a reference names, the newest if it names none.

    Models are as they were when MLflow's registry was last read: see :func:`.models.sync_for`.
    """
    if name.version is None:
        return assets.get_latest(database, kind, name.name)
    return assets.get_version(database, kind, name.name, name.version)


def local_path(workspace: Workspace, uri: str) -> Path | None:
    """The file or folder of a reference; it may not exist. None if it is not of this workspace.

    The project's ``assets:`` come first, because a line there is meant for this machine.

    A reference is an ``azureml:`` form, the id of an asset, the output of a job, or the address of a blob.

    Raises:
        ServiceError: 400, it leads outside the home, or names a job that does not exist.
    """
    for _ in range(_HOPS):
        mapped = project_assets(workspace).local(uri)
        if mapped is not None:
            return mapped
        asset = find_data(workspace, uri)
        if asset is None:
            break
        uri = asset.properties[_URIS[asset.kind]]
    place = _parse_output(workspace, uri)
    if place is not None:
        uri = place.long_form(workspace.scope)
    local = datastore_path(workspace.home, workspace.database, uri)
    if local is None and (blob := _parse_blob(workspace, uri)) is not None:
        local = locate(workspace.home, *blob)
    return local


def datastore_path(home: Home, database: Database, uri: str) -> Path | None:
    """The file or folder of a path in a datastore; None for another text, or if there is no such datastore.

    Raises:
        ServiceError: 400, it leads outside the home.
    """
    place = parse_store_path(uri)
    container = "" if place is None else _container_of(database, place.store)
    return locate(home, container, place.path) if place is not None and container else None


def find_data(workspace: Workspace, reference: str) -> assets.Asset | None:
    """The code, data or model asset of a reference; None if there is none or the text is something else."""
    name = parse_asset(reference)
    if name is None:
        return None
    kinds = (name.kind,) if name.kind else _URIS
    candidates = (find_asset(workspace.database, kind, name) for kind in kinds if kind in _URIS)
    return next((asset for asset in candidates if asset is not None), None)


def project_assets(workspace: Workspace) -> AssetMap:
    """The ``assets:`` of the project's ``worldsize.yml`` as it is now."""
    entries = [
        AssetEntry(asset.reference, asset.path.absolute(), asset.span)
        for asset in project_settings(workspace).assets
    ]
    return AssetMap(entries)
