"""The addresses of data: the forms of ``azureml:`` and the blobs of this workspace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from worldsize.serving.control.resources import get_resource
from worldsize.serving.database import Database
from worldsize.serving.errors import bad_request
from worldsize.serving.workspace import ARTIFACT_STORE, BLOB_STORE, CONTAINERS, Scope, Workspace

_STORE = re.compile(
    r"azureml://(?:subscriptions/[^/]+/resourcegroups/[^/]+/(?:providers/[^/]+/)?workspaces/[^/]+/)?"
    r"datastores/(?P<store>[^/]+)(?:/paths/?(?P<path>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_OUTPUT = re.compile(
    r"azureml://(?:subscriptions/[^/]+/resourcegroups/[^/]+/(?:providers/[^/]+/)?workspaces/[^/]+/)?"
    r"jobs/(?P<job>[^/]+)/outputs/(?P<output>[^/]+)(?:/paths/?(?P<path>.*))?",
    re.IGNORECASE | re.DOTALL,
)
_RUN = re.compile(r"runs:/{1,3}(?P<job>[^/]+)/(?P<path>.*)", re.DOTALL)
_ASSET_ID = re.compile(
    r"(?:azureml:/{0,2})?/?subscriptions/[^/]+/resourcegroups/[^/]+/providers/[^/]+/workspaces/[^/]+/"
    r"(?P<kind>codes|components|data|environments|models)/(?P<name>[^/]+)"
    r"/(?:versions/(?P<version>[^/]+)|labels/(?P<label>[^/]+))|"
    r"azureml://(?:subscriptions/[^/]+/resourcegroups/[^/]+/workspaces/[^/]+|locations/[^/]+/workspaces/[^/]+)/"
    r"(?P<kind2>codes|components|data|environments|models)/(?P<name2>[^/]+)"
    r"/(?:versions/(?P<version2>[^/]+)|labels/(?P<label2>[^/]+))",
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
        names = (quote(each, safe="()") for each in (scope.subscription, scope.group, scope.workspace))
        subscription, group, workspace = names
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
    match = _STORE.fullmatch(uri)
    return None if match is None else StorePath(match["store"], match["path"] or "")


def parse_asset(reference: str) -> AssetName | None:
    """The asset of ``azureml:name:version``, ``name@latest`` or an id; None for anything else."""
    if (match := _ASSET_ID.fullmatch(reference)) is not None:
        kind, label = (match["kind"] or match["kind2"]).lower(), match["label"] or match["label2"]
        name = AssetName(kind, match["name"] or match["name2"], match["version"] or match["version2"])
    elif (match := _NAMED.fullmatch(reference)) is not None:
        label, name = match["label"], AssetName("", match["name"], match["version"])
    else:
        return None
    return name if label in (None, "latest") else None  # the only label that the service keeps


def parse_output(workspace: Workspace, uri: str) -> StorePath | None:
    """Where an output of a job or a file of a run lies; None if the address is of something else.

    Raises:
        ServiceError: 400, there is no such job.
    """
    match = _OUTPUT.fullmatch(uri)
    if match is None:
        run = _RUN.fullmatch(uri)
        return None if run is None else _run_path(run["job"], run["path"])
    job, output, path = match["job"], match["output"], match["path"] or ""
    if output.lower() == "artifacts":
        return _run_path(job, path)
    query = "SELECT json_extract(properties, '$.outputs') FROM jobs WHERE name = ?"
    row = workspace.database.connection.execute(query, (job,)).fetchone()
    if row is None:
        raise bad_request(f"`{uri[:300]}` names the job `{job}`, which does not exist.")
    return StorePath(BLOB_STORE, f"azureml/{job}/{output}/{path}")


def _run_path(run: str, path: str) -> StorePath:
    return StorePath(ARTIFACT_STORE, f"ExperimentRun/dcid.{run}/{path}")


def expand_uri(workspace: Workspace, scope: Scope, uri: str) -> str:
    """The form in which the service keeps the address of an asset: short and job forms become long ones.

    Raises:
        ServiceError: 400, it is the output of a job that does not exist.
    """
    place = parse_store_path(uri) or parse_output(workspace, uri)
    return uri if place is None else place.long_form(scope)


def parse_blob(workspace: Workspace, uri: str) -> tuple[str, str] | None:
    """Container and path of the address of a blob in this workspace, with or without a signature."""
    parts = urlsplit(uri)
    own = urlsplit(workspace.endpoints.blob)
    if parts.scheme not in ("http", "https") or parts.hostname != own.hostname:
        return None
    path = parts.path.removeprefix(own.path) if parts.path.startswith(own.path) else None
    if path is None:
        return None
    container, _, rest = unquote(path).lstrip("/").partition("/")
    return (container, rest) if container else None


def container_of(database: Database, store: str) -> str | None:
    """The container of a datastore; None if there is no such datastore, or it is not of blobs."""
    for name, container in CONTAINERS.items():
        if name == store.lower():
            return container
    resource = get_resource(database, "datastores", store)
    if resource is None:
        return None
    found = resource.body.get("containerName") or resource.body.get("filesystem")
    return found if isinstance(found, str) else None
