"""What a writer says of a blob in the headers of its request."""

from __future__ import annotations

import re
from collections.abc import Mapping

from worldsize.serving.storage.blobs import DEFAULT_TYPE, BlobProperties
from worldsize.serving.storage.errors import StorageError

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
    found = {
        name.lower()[len(METADATA) :]: value
        for name, value in headers.items()
        if name.lower().startswith(METADATA)
    }
    if any(METADATA_NAME.fullmatch(name) is None for name in found):
        raise StorageError(400, "InvalidMetadata", "The name of a metadata is not a valid identifier.")
    if sum(len(name) + len(value) for name, value in found.items()) > MAX_METADATA:
        raise StorageError(400, "MetadataTooLarge", f"The metadata exceeds {MAX_METADATA} bytes.")
    return found


def read_properties(headers: Mapping[str, str], *, whole: bool) -> BlobProperties:
    """What a request says of its blob.

    Args:
        headers: The request's.
        whole: Whether the request has the blob's content, so that its Content-Type is the blob's.
    """
    content_type = headers.get("x-ms-blob-content-type") or (headers.get("content-type") if whole else None)
    return BlobProperties(
        content_type or DEFAULT_TYPE,
        headers.get("x-ms-blob-content-md5"),
        read_metadata(headers),
        {stored: headers[given] for given, stored in STORED.items() if headers.get(given)},
    )
