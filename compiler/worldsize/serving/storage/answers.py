"""What the answers of the blob service have in common: headers, XML, and the content of blobs."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import uuid
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Mapping
from email.utils import format_datetime

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from worldsize.base import untrusted
from worldsize.serving.storage.blobs import Blob
from worldsize.serving.storage.files import VERSION, StorageError


def _service_headers(request: Request) -> dict[str, str]:
    headers = {
        "x-ms-request-id": str(uuid.uuid4()),
        "x-ms-version": request.headers.get("x-ms-version", VERSION),
    }
    if (client := request.headers.get("x-ms-client-request-id")) is not None:
        headers["x-ms-client-request-id"] = client
    return headers


def empty_answer(request: Request, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body."""
    return Response(None, status, {**_service_headers(request), **(headers or {})})


def xml_answer(request: Request, root: ET.Element, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in XML."""
    text = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(text, 200, {**_service_headers(request), **(headers or {})}, "application/xml")


def write_headers(blob: Blob) -> dict[str, str]:
    """What a writer is told of the blob."""
    headers = {
        "ETag": blob.etag,
        "Last-Modified": format_datetime(blob.modified, usegmt=True),
        "x-ms-request-server-encrypted": "true",
    }
    if blob.properties.content_md5 is not None:
        headers["Content-MD5"] = blob.properties.content_md5
    return headers


def _blob_headers(blob: Blob) -> dict[str, str]:
    """What a reader is told of the blob, but the length and the hash of what it gets."""
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
