"""The paths of the blob service: ``/blob/<host>/<container>/<blob>``."""

from __future__ import annotations

import asyncio
import base64
import binascii
import shutil
import xml.etree.ElementTree as ET
from datetime import datetime, timezone
from email.utils import format_datetime
from operator import itemgetter
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.storage import blob_requests
from worldsize.serving.storage.blob_requests import BlobRequest, Handler, add_child
from worldsize.serving.storage.blobs import MAX_RESULTS, Blob, Page, describe_blobs, list_blobs
from worldsize.serving.storage.files import (
    StorageError,
    invalid_query,
    locate,
    unsupported,
)
from worldsize.serving.storage.uploads import prepare_folders
from worldsize.serving.workspace import CONTAINERS, Workspace

METHODS = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"]


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes; what a killed server left of uploads is removed."""
    prepare_folders(workspace.home)

    async def handle(request: Request) -> Response:
        container, _, path = request.path_params.get("rest", "").partition("/")
        operation = request.query_params.get("comp", "").lower()
        if path:
            handlers, what = blob_requests.HANDLERS, f"a blob with `comp={operation[:40]}`"
        elif container:
            handlers, what = HANDLERS, f"a container with `comp={operation[:40]}`"
        else:
            handlers, what = ACCOUNT_HANDLERS, "the account"
            operation = operation if operation == "list" else request.query_params.get("restype", "").lower()
        if (handler := handlers.get((request.method, operation))) is None:
            raise unsupported(f"{request.method} of {what}")
        return await handler(BlobRequest(workspace, request, container, path))

    return [
        Route("/blob/{host}", handle, methods=METHODS),
        Route("/blob/{host}/{rest:path}", handle, methods=METHODS),
    ]


async def create(call: BlobRequest) -> Response:
    """Create Container."""
    folder = locate(call.workspace.home, call.container, "")
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise StorageError(409, "ContainerAlreadyExists", "The specified container already exists.") from None
    return call.answer(201, _properties(folder))


async def properties(call: BlobRequest) -> Response:
    """Get Container Properties and Get Container Metadata."""
    leases = {"x-ms-lease-status": "unlocked", "x-ms-lease-state": "available"}
    return call.answer(200, {**_properties(_existing(call)), **leases})


async def delete(call: BlobRequest) -> Response:
    """Delete Container, unless it is one of the workspace's own."""
    folder = _existing(call)
    if call.container in CONTAINERS.values():
        raise StorageError(403, "AuthorizationFailure", "The workspace's own containers cannot be deleted.")
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    call.workspace.database.connection.execute("DELETE FROM blobs WHERE container = ?", (call.container,))
    return call.answer(202)


async def _list_blobs(call: BlobRequest) -> Response:
    """List Blobs."""
    return await asyncio.to_thread(_list_names, call)


def _list_names(call: BlobRequest) -> Response:
    _existing(call)
    query, container = call.request.query_params, call.container
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after, limit = _decode_marker(query.get("marker", "")), _read_limit(query.get("maxresults"))
    while "//" in prefix:  # as in names
        prefix = prefix.replace("//", "/")
    page = list_blobs(
        call.workspace.home, container, prefix=prefix, delimiter=delimiter, after=after, limit=limit
    )
    blobs = describe_blobs(call.workspace.database, page.blobs)
    root = ET.Element("EnumerationResults", ContainerName=container, ServiceEndpoint=_endpoint(call))
    for name in ("prefix", "marker", "maxresults", "delimiter"):
        if name in query:
            add_child(root, {"maxresults": "MaxResults"}.get(name, name.title()), query[name])
    wants_metadata = "metadata" in query.get("include", "")
    _add_items(add_child(root, "Blobs"), page, blobs, wants_metadata=wants_metadata)
    add_child(root, "NextMarker", base64.urlsafe_b64encode(page.after.encode()).decode())
    return call.answer(200, root=root)


def _add_items(parent: ET.Element, page: Page, blobs: list[Blob], *, wants_metadata: bool) -> None:
    """Add the blobs and the shared beginnings of names, in the order of their names."""
    by_name = {**{blob.name: blob for blob in blobs}, **dict.fromkeys(page.prefixes)}
    for name, blob in sorted(by_name.items(), key=itemgetter(0)):
        if blob is None:
            add_child(add_child(parent, "BlobPrefix"), "Name", name)
        else:
            _add_blob(parent, blob, wants_metadata=wants_metadata)


def _add_blob(parent: ET.Element, blob: Blob, *, wants_metadata: bool) -> None:
    element = add_child(parent, "Blob")
    add_child(element, "Name", blob.name)
    shown = add_child(element, "Properties")
    written = format_datetime(blob.modified, usegmt=True)
    values = {
        "Creation-Time": written,
        "Last-Modified": written,
        "Etag": blob.etag.strip('"'),
        "Content-Length": str(blob.size),
        "Content-Type": blob.properties.content_type,
        **blob.properties.headers,
        "Content-MD5": blob.properties.content_md5,
        "BlobType": "BlockBlob",
        "AccessTier": "Hot",
        "AccessTierInferred": "true",
        "LeaseStatus": "unlocked",
        "LeaseState": "available",
        "ServerEncrypted": "true",
    }
    for name, value in values.items():
        add_child(shown, name, value)
    if wants_metadata:
        metadata = add_child(element, "Metadata")
        for name, value in blob.properties.metadata.items():
            add_child(metadata, name, value)


async def _list_containers(call: BlobRequest) -> Response:
    """List Containers, on one page."""
    prefix = call.request.query_params.get("prefix", "")
    root = ET.Element("EnumerationResults", ServiceEndpoint=_endpoint(call))
    listed = add_child(root, "Containers")
    for folder in sorted(call.workspace.home.blobs.iterdir()):
        if folder.is_dir() and folder.name.startswith(prefix):
            element = add_child(listed, "Container")
            add_child(element, "Name", folder.name)
            shown = add_child(element, "Properties")
            for name, value in _properties(folder).items():
                add_child(shown, "Etag" if name == "ETag" else name, value.strip('"'))
    add_child(root, "NextMarker")
    return call.answer(200, root=root)


async def _describe_account(call: BlobRequest) -> Response:
    return call.answer(200, {"x-ms-sku-name": "Standard_LRS", "x-ms-account-kind": "StorageV2"})


async def _describe_service(call: BlobRequest) -> Response:
    return call.answer(200, root=ET.Element("StorageServiceProperties"))


def _existing(call: BlobRequest) -> Path:
    folder = locate(call.workspace.home, call.container, "")
    if call.container in CONTAINERS.values():  # those of the workspace always exist
        folder.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise StorageError(404, "ContainerNotFound", "The specified container does not exist.")
    return folder


def _properties(folder: Path) -> dict[str, str]:
    changed = folder.stat().st_mtime_ns
    moment = datetime.fromtimestamp(changed // 1_000_000_000, timezone.utc)
    return {"ETag": f'"0x{changed:X}"', "Last-Modified": format_datetime(moment, usegmt=True)}


def _endpoint(call: BlobRequest) -> str:
    return f"https://{call.request.headers.get('host', '')}/"


def _read_limit(text: str | None) -> int:
    if text is None:
        return MAX_RESULTS
    if not text.isascii() or not text.isdigit() or not 0 < len(text) < 10 or int(text) == 0:
        raise StorageError(
            400, "OutOfRangeQueryParameterValue", "The value of the parameter `maxresults` is not valid."
        )
    return min(int(text), MAX_RESULTS)


def _decode_marker(marker: str) -> str:
    """The name of a marker, which clients give back as it is."""
    try:
        return base64.b64decode(marker, b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise invalid_query("marker") from None


HANDLERS: dict[tuple[str, str], Handler] = {
    ("PUT", ""): create,
    ("GET", ""): properties,
    ("HEAD", ""): properties,
    ("GET", "metadata"): properties,
    ("HEAD", "metadata"): properties,
    ("DELETE", ""): delete,
    ("GET", "list"): _list_blobs,
}
ACCOUNT_HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "list"): _list_containers,
    ("GET", "account"): _describe_account,
    ("HEAD", "account"): _describe_account,
    ("GET", "service"): _describe_service,
}
