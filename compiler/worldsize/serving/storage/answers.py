"""What the answers of the blob service have in common: its headers, and its XML."""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from email.utils import format_datetime

from starlette.requests import Request
from starlette.responses import Response

from worldsize.serving.storage.blobs import Blob
from worldsize.serving.storage.errors import VERSION


def service_headers(request: Request) -> dict[str, str]:
    """The headers of every answer."""
    headers = {
        "x-ms-request-id": str(uuid.uuid4()),
        "x-ms-version": request.headers.get("x-ms-version", VERSION),
    }
    if (client := request.headers.get("x-ms-client-request-id")) is not None:
        headers["x-ms-client-request-id"] = client
    return headers


def empty_answer(request: Request, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body."""
    return Response(None, status, {**service_headers(request), **(headers or {})})


def xml_answer(request: Request, root: ET.Element, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in XML."""
    text = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(text, 200, {**service_headers(request), **(headers or {})}, "application/xml")


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


def blob_headers(blob: Blob) -> dict[str, str]:
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
