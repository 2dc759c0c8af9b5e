"""A request to the blob service and its answers, and what is done with one blob.

https://learn.microsoft.com/rest/api/storageservices/operations-on-blobs has the requests.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import shutil
import urllib.parse
import uuid
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from worldsize.base import untrusted
from worldsize.serving.control.call import read_body
from worldsize.serving.control.paths import project_assets
from worldsize.serving.storage.blobs import (
    DEFAULT_TYPE,
    Blob,
    BlobProperties,
    change_blob,
    delete_blob,
    put_blob,
    read_blob,
    stat_blob,
)
from worldsize.serving.storage.files import (
    VERSION,
    StorageError,
    blob_name,
    invalid_header,
    invalid_query,
    locate,
    unsupported,
)
from worldsize.serving.storage.uploads import (
    discard_blocks,
    find_parts,
    join_blocks,
    read_block_list,
    received_body,
    stage_block,
    staged_blocks,
    sync,
    temporary_file,
)
from worldsize.serving.workspace import BLOB_HOST, Workspace

_MISSING = "The specified blob does not exist."
MAX_BLOCK_LIST = 8 << 20  # bytes of its XML: 50,000 ids of the longest kind


@dataclass(frozen=True, slots=True)
class BlobRequest:
    """A request for a blob, for a container if the path is empty, or for the account."""

    workspace: Workspace
    request: Request
    container: str
    path: str

    def find(self) -> Blob | None:
        """The blob, if it exists."""
        return read_blob(self.workspace, self.container, self.path)

    def answer(
        self, status: int, headers: Mapping[str, str] | None = None, root: ET.Element | None = None
    ) -> Response:
        """An answer with a document of XML, or without a body."""
        text = None if root is None else ET.tostring(root, encoding="utf-8", xml_declaration=True)
        all_headers = {**_service_headers(self.request), **(headers or {})}
        return Response(text, status, all_headers, None if root is None else "application/xml")


async def get(call: BlobRequest) -> Response:
    """Get Blob and Get Blob Properties."""
    host = call.request.path_params["host"]
    blob = call.find() or _find_stand_in(call.workspace, host, call.container, call.path)
    return await send_blob(call.request, _check_read(call.request.headers, blob))


async def put(call: BlobRequest) -> Response:
    """Put Blob, Copy Blob, Put Blob From URL."""
    headers = call.request.headers
    if "x-ms-copy-source" in headers:
        return await copy(call)
    kind = headers.get("x-ms-blob-type", "BlockBlob")
    if kind != "BlockBlob":
        raise unsupported(f"blobs of the type {kind[:40]}: upload a block blob")
    properties = _read_properties(headers, whole=True)
    locate(call.workspace.home, call.container, call.path)  # refuse the name before the body
    async with received_body(call.workspace.home, call.request) as body:
        described = msgspec.structs.replace(properties, content_md5=properties.content_md5 or body.md5)

        def store() -> Response:
            _check_write(headers, call.find())
            # As some clients write a folder.
            if call.path.endswith("/") or properties.metadata.get("hdi_isfolder") == "true":
                return _make_folder(call)
            blob = put_blob(call.workspace, call.container, call.path, body.file, described)
            return call.answer(201, _write_headers(blob))

        answer = await call.workspace.database.change(store)
    discard_blocks(call.workspace.home, call.container, call.path)
    return answer


def _make_folder(call: BlobRequest) -> Response:
    folder = locate(call.workspace.home, call.container, call.path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise StorageError(
            409, "PathConflict", f"`{blob_name(call.path)}` is a blob, not a folder."
        ) from None
    return call.answer(201)


async def copy(call: BlobRequest) -> Response:
    """Copy Blob and Put Blob From URL, done when it is answered."""
    headers = call.request.headers
    source = _source_blob(call.workspace, headers["x-ms-copy-source"])
    metadata = _read_properties(headers, whole=False).metadata or source.properties.metadata
    with temporary_file(call.workspace.home) as file:
        await asyncio.to_thread(_copy_file, source.file, file)
        properties = msgspec.structs.replace(source.properties, metadata=metadata)
        blob = await call.workspace.database.change(partial(_replace, call, file, properties))
    discard_blocks(call.workspace.home, call.container, call.path)
    status = 201 if "x-ms-blob-type" in headers else 202
    copied = {"x-ms-copy-id": str(uuid.uuid4()), "x-ms-copy-status": "success"}
    return call.answer(status, {**_write_headers(blob), **copied})


async def _put_block(call: BlobRequest) -> Response:
    if "x-ms-copy-source" in call.request.headers:
        raise unsupported("blocks that come from a URL")
    async with received_body(call.workspace.home, call.request) as body:
        block = call.request.query_params.get("blockid", "")
        stage_block(call.workspace.home, call.container, call.path, block, body.file)
    return call.answer(201, {"Content-MD5": body.md5, "x-ms-request-server-encrypted": "true"})


async def _put_block_list(call: BlobRequest) -> Response:
    text = await read_body(call.request, MAX_BLOCK_LIST)
    home, container, path = call.workspace.home, call.container, call.path
    listed = await asyncio.to_thread(read_block_list, text)
    parts = await asyncio.to_thread(find_parts, home, container, path, call.find(), listed)
    properties = _read_properties(call.request.headers, whole=False)
    committed = tuple((part.block, part.size) for part in parts)
    with temporary_file(home) as file:
        await asyncio.to_thread(join_blocks, parts, file)
        properties = msgspec.structs.replace(properties, blocks=committed)
        blob = await call.workspace.database.change(partial(_replace, call, file, properties))
    discard_blocks(home, container, path)
    return call.answer(201, _write_headers(blob))


def _replace(call: BlobRequest, content: Path, properties: BlobProperties) -> Blob:
    """Make a file the content of the blob, if the request's conditions allow it."""
    _check_write(call.request.headers, call.find())
    return put_blob(call.workspace, call.container, call.path, content, properties)


async def _get_block_list(call: BlobRequest) -> Response:
    wanted = call.request.query_params.get("blocklisttype", "committed").lower()
    if wanted not in ("committed", "uncommitted", "all"):
        raise invalid_query("blocklisttype")
    blob = call.find()
    staged = staged_blocks(call.workspace.home, call.container, call.path)
    if blob is None and not staged:
        _check_read({}, None)
    root = ET.Element("BlockList")
    committed = blob.properties.blocks if blob is not None else ()
    for title, blocks in (("Committed", committed), ("Uncommitted", staged)):
        if wanted in (title.lower(), "all"):
            listed = ET.SubElement(root, f"{title}Blocks")
            for block, size in blocks:
                element = ET.SubElement(listed, "Block")
                add_child(element, "Name", block)
                add_child(element, "Size", str(size))
    headers = {} if blob is None else {**_write_headers(blob), "x-ms-blob-content-length": str(blob.size)}
    return call.answer(200, headers, root)


async def _put_metadata(call: BlobRequest) -> Response:
    metadata = read_metadata(call.request.headers)
    return await _change(call, lambda before: msgspec.structs.replace(before, metadata=metadata))


async def _put_properties(call: BlobRequest) -> Response:
    """Set Blob Properties: those that are not given are cleared."""
    properties = _read_properties(call.request.headers, whole=False)
    return await _change(
        call,
        lambda before: msgspec.structs.replace(properties, metadata=before.metadata, blocks=before.blocks),
    )


async def _change(call: BlobRequest, describe: Callable[[BlobProperties], BlobProperties]) -> Response:
    """Change what is said of the blob."""

    def change() -> Response:
        blob = _check_read({}, call.find())
        _check_write(call.request.headers, blob)
        changed = change_blob(call.workspace, blob, describe(blob.properties))
        return call.answer(200, _write_headers(changed))

    return await call.workspace.database.change(change)


async def delete(call: BlobRequest) -> Response:
    """Delete Blob."""

    def remove() -> None:
        blob = _check_read({}, call.find())
        _check_write(call.request.headers, blob)
        delete_blob(call.workspace, blob)

    await call.workspace.database.change(remove)
    discard_blocks(call.workspace.home, call.container, call.path)
    return call.answer(202, {"x-ms-delete-type-permanent": "true"})


async def _set_tier(call: BlobRequest) -> Response:
    """Set Blob Tier: there is one tier."""
    _check_read({}, call.find())
    return call.answer(200)


Handler = Callable[[BlobRequest], Awaitable[Response]]
HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", ""): get,
    ("HEAD", ""): get,
    ("GET", "metadata"): get,
    ("HEAD", "metadata"): get,
    ("PUT", ""): put,
    ("DELETE", ""): delete,
    ("PUT", "block"): _put_block,
    ("PUT", "blocklist"): _put_block_list,
    ("GET", "blocklist"): _get_block_list,
    ("PUT", "metadata"): _put_metadata,
    ("PUT", "properties"): _put_properties,
    ("PUT", "tier"): _set_tier,
}


def _find_stand_in(workspace: Workspace, host: str, container: str, path: str) -> Blob:
    """The file that ``assets:`` gives for a blob of another account."""
    address = f"https://{host}/{container}/{path}"
    assets = project_assets(workspace)
    file = assets.local(address)
    if file is not None:
        real = Path(
            os.path.realpath(file)
        )  # all links followed: one that the user named, or in such a folder
        is_named = any(real.is_relative_to(os.path.realpath(root)) for root in assets.paths)
        if is_named and (blob := stat_blob(file, container, path)) is not None:
            return blob
    message = _MISSING
    if host.lower() != BLOB_HOST:
        message += (
            f" `worldsize serve` lets no request through to `{host}`: write `{address[:500]}: ./FILE` under"
            " `assets:` of `worldsize.yml` to put a file in its place."
        )
    raise StorageError(404, "BlobNotFound", message)


STORAGE_HOST = re.compile(r"[a-z0-9]+\.(?:blob|dfs)\.core\.[a-z.]+")


def _source_blob(workspace: Workspace, url: str) -> Blob:
    """The blob that a copy's source names."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        raise invalid_header("x-ms-copy-source") from None
    segments = urllib.parse.unquote(parts.path).lstrip("/").split("/")
    if STORAGE_HOST.fullmatch(parts.hostname or "") is None:
        if url.split("/")[:3] != workspace.endpoints.blob.split("/")[:3] or segments[0] != "blob":
            raise StorageError(
                400, "CannotVerifyCopySource", "Only blobs of the local workspace can be copied."
            )
        segments = segments[2:]
    container, path = segments[0] if segments else "", "/".join(segments[1:])
    blob = read_blob(workspace, container, path)
    if blob is None:
        raise StorageError(404, "CannotVerifyCopySource", _MISSING)
    return blob


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("r+b") as file:
        sync(file)


METADATA = "x-ms-meta-"
METADATA_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # as Azure: an identifier of C#
MAX_METADATA = 8192  # bytes of all names and values
# Headers that a blob is read with, by those that it is written with.
STORED = {
    "x-ms-blob-cache-control": "Cache-Control",
    "x-ms-blob-content-disposition": "Content-Disposition",
    "x-ms-blob-content-encoding": "Content-Encoding",
    "x-ms-blob-content-language": "Content-Language",
}


def read_metadata(headers: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a request.

    Raises:
        StorageError: 400, for a name that is no identifier, or for too much.
    """
    metadata = {
        name.lower()[len(METADATA) :]: value
        for name, value in headers.items()
        if name.lower().startswith(METADATA)
    }
    if any(METADATA_NAME.fullmatch(name) is None for name in metadata):
        raise StorageError(400, "InvalidMetadata", "The name of a metadata is not a valid identifier.")
    if sum(len(name) + len(value) for name, value in metadata.items()) > MAX_METADATA:
        raise StorageError(400, "MetadataTooLarge", f"The metadata exceeds {MAX_METADATA} bytes.")
    return metadata


def _read_properties(headers: Mapping[str, str], *, whole: bool) -> BlobProperties:
    """What a request says of its blob."""
    content_type = headers.get("x-ms-blob-content-type") or (headers.get("content-type") if whole else None)
    return BlobProperties(
        content_type or DEFAULT_TYPE,
        headers.get("x-ms-blob-content-md5"),
        read_metadata(headers),
        {stored: headers[header] for header, stored in STORED.items() if headers.get(header)},
    )


def _check_read(headers: Mapping[str, str], blob: Blob | None) -> Blob:
    """The blob, if it exists and a reader's conditions hold."""
    if blob is None:
        raise StorageError(404, "BlobNotFound", _MISSING)
    _check_match(headers, blob)
    if _names(headers.get("if-none-match"), blob) or not _modified_since(headers, blob):
        raise StorageError(304, "ConditionNotMet", "The blob has not changed.")
    return blob


def _check_write(headers: Mapping[str, str], blob: Blob | None) -> None:
    """Check a writer's conditions."""
    if blob is None:
        if "if-match" in headers:
            raise _not_met()
        return
    if headers.get("if-none-match", "").strip() == "*":
        raise StorageError(409, "BlobAlreadyExists", "The specified blob already exists.")
    _check_match(headers, blob)
    if _names(headers.get("if-none-match"), blob) or not _modified_since(headers, blob):
        raise _not_met()


def _check_match(headers: Mapping[str, str], blob: Blob) -> None:
    wanted = headers.get("if-match")
    if wanted is not None and not _names(wanted, blob):
        raise _not_met()
    limit = _moment(headers.get("if-unmodified-since"))
    if limit is not None and blob.modified > limit:
        raise _not_met()


def _names(tags: str | None, blob: Blob) -> bool:
    """Whether a list of ETags has the blob's."""
    if tags is None:
        return False
    etags = {tag.strip().removeprefix("W/").strip('"') for tag in tags.split(",")}
    return "*" in etags or blob.etag.strip('"') in etags


def _modified_since(headers: Mapping[str, str], blob: Blob) -> bool:
    limit = _moment(headers.get("if-modified-since"))
    return limit is None or blob.modified > limit


def _moment(text: str | None) -> datetime | None:
    """A date of HTTP; one that cannot be read counts as absent (RFC 9110, 13.1.3)."""
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None


def _not_met() -> StorageError:
    return StorageError(412, "ConditionNotMet", "The condition of the request is not met.")


def _service_headers(request: Request) -> dict[str, str]:
    headers = {
        "x-ms-request-id": str(uuid.uuid4()),
        "x-ms-version": request.headers.get("x-ms-version", VERSION),
    }
    if (client := request.headers.get("x-ms-client-request-id")) is not None:
        headers["x-ms-client-request-id"] = client
    return headers


def _write_headers(blob: Blob) -> dict[str, str]:
    """What a writer learns of the blob."""
    headers = {
        "ETag": blob.etag,
        "Last-Modified": format_datetime(blob.modified, usegmt=True),
        "x-ms-request-server-encrypted": "true",
    }
    if blob.properties.content_md5 is not None:
        headers["Content-MD5"] = blob.properties.content_md5
    return headers


def _blob_headers(blob: Blob) -> dict[str, str]:
    """What a reader learns of the blob, but the length and the hash of what it gets."""
    written = format_datetime(blob.modified, usegmt=True)
    return {
        "ETag": blob.etag,
        "Last-Modified": written,
        "Accept-Ranges": "bytes",
        "Content-Type": blob.properties.content_type,
        **blob.properties.headers,
        **{f"x-ms-meta-{name}": value for name, value in blob.properties.metadata.items()},
        "x-ms-blob-type": "BlockBlob",
        "x-ms-access-tier": "Hot",
        "x-ms-access-tier-inferred": "true",
        "x-ms-creation-time": written,
        "x-ms-lease-state": "available",
        "x-ms-lease-status": "unlocked",
        "x-ms-server-encrypted": "true",
    }


def add_child(parent: ET.Element, name: str, text: str | None = None) -> ET.Element:
    """Add an element with a text."""
    child = ET.SubElement(parent, name)
    child.text = text
    return child


RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
CHUNK = 1 << 20  # bytes
MAX_HASHED = 4 << 20  # bytes of a range whose MD5 a client may ask for


def _parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """The first byte of a range and the one after its last; None for the whole blob."""
    match = RANGE.fullmatch(text.replace(" ", "")) if text else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise StorageError(
            416, "InvalidRange", "The range specified is invalid for the current size of the resource."
        )
    return start, end


async def send_blob(request: Request, blob: Blob) -> Response:
    """The answer to GET and HEAD."""
    headers = {**_service_headers(request), **_blob_headers(blob)}
    md5 = blob.properties.content_md5
    requested = request.headers.get("x-ms-range") or request.headers.get("range")
    part = _parse_range(requested, blob.size) if request.method == "GET" else None
    start, end = part or (0, blob.size)
    headers["Content-Length"] = str(end - start)
    if part is None:
        headers |= {"Content-MD5": md5} if md5 else {}
    else:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{blob.size}"
        headers |= {"x-ms-blob-content-md5": md5} if md5 else {}
        if request.headers.get("x-ms-range-get-content-md5") == "true":
            headers["Content-MD5"] = await asyncio.to_thread(_hash, blob, start, end)
    if request.method == "HEAD":
        return Response(None, 200, headers)
    return StreamingResponse(read_chunks(blob, start, end), 206 if part else 200, headers)


async def read_chunks(blob: Blob, start: int, end: int) -> AsyncIterator[bytes]:
    """The content from one byte up to another; an error where the file has become shorter."""
    file = await asyncio.to_thread(untrusted.open_file, blob.file)
    try:
        file.seek(start)
        while start < end:
            chunk = await asyncio.to_thread(file.read, min(CHUNK, end - start))
            if not chunk:
                raise OSError(f"`{blob.file}` has become shorter while it was read")
            start += len(chunk)
            yield chunk
    finally:
        file.close()


def _hash(blob: Blob, start: int, end: int) -> str:
    if end - start > MAX_HASHED:
        raise StorageError(400, "InvalidHeaderValue", f"An MD5 is for ranges of up to {MAX_HASHED} bytes.")
    with untrusted.open_file(blob.file) as file:
        file.seek(start)
        digest = hashlib.md5(file.read(end - start), usedforsecurity=False)
    return base64.b64encode(digest.digest()).decode()
