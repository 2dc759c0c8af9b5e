"""Where a blob's content lies on the disk. No name leads outside the home, not even through a link.

Names differ from Azure's in two ways, because they are those of files: a doubled slash counts as one, and
where a blob ``a`` exists there is no blob ``a/b``. Errors of the service are XML; those of the management
API are JSON.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path
from xml.sax.saxutils import escape

from starlette.responses import Response

from worldsize.serving.errors import ServiceError
from worldsize.serving.home import PRIVATE_FOLDER, Home

CONTAINER = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}|\$(?:root|web|logs)")
MAX_NAME, MAX_SEGMENT = 1024, 255  # characters of a blob's name (Azure); bytes of a file's name (POSIX)
# What neither XML 1.0 nor a file name can hold, and the characters that Azure refuses.
UNWRITABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def container_folder(home: Home, container: str) -> Path:
    """The folder of a container, which may not exist.

    Raises:
        StorageError: 400, for a name that is none of a container.
    """
    if CONTAINER.fullmatch(container) is None:
        raise invalid_name(
            f"`{container[:80]}` is not a container's name,"
            " which has 3 to 63 lower-case letters, digits and single hyphens."
        )
    return home.blobs / container


def blob_name(path: str) -> str:
    """The name under which a blob is kept: without empty segments.

    Raises:
        StorageError: 400, for a name that cannot be a file's.
    """
    if len(path) > MAX_NAME:
        raise invalid_name(f"The name of the blob is longer than {MAX_NAME} characters.")
    if UNWRITABLE.search(path):
        raise invalid_name("The name of the blob has control characters.")
    segments = [segment for segment in path.split("/") if segment]
    for segment in segments:
        if segment in (".", ".."):
            raise invalid_name(f"`{path[:80]}` has the segment `{segment}`, which a blob's name cannot have.")
        if len(segment.encode()) > MAX_SEGMENT:
            raise invalid_name(f"A part of the name is longer than {MAX_SEGMENT} bytes: `{segment[:40]}…`")
    return "/".join(segments)


def locate(home: Home, container: str, path: str) -> Path:
    """The file of a blob, or the folder of several; it may not exist. An empty path is the container itself.

    Raises:
        StorageError: 400, for a name that is not valid, or that leads outside the home by a link.
    """
    place = container_folder(home, container) / blob_name(path)
    if not is_inside(home, place):
        raise invalid_name(f"`{path[:80]}` leads outside the workspace's home.")
    return place


def make_link(target: Path, link: Path) -> None:
    """Make a relative link, so that the home can be moved; an entry that exists stays."""
    link.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # the server and a job's process may both make it
        link.symlink_to(os.path.relpath(os.path.realpath(target), os.path.realpath(link.parent)))


def is_inside(home: Home, place: Path) -> bool:
    """Whether a path, all links followed, is in the home and not among the server's own files."""
    real = Path(os.path.realpath(place))
    if not real.is_relative_to(os.path.realpath(home.root)):
        return False
    if not real.is_relative_to(os.path.realpath(home.state)):
        return True
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in (home.blobs, home.jobs))


VERSION = "2024-11-04"  # of the service, answered where a request names none


class StorageError(ServiceError):
    """An error of a storage request (https://learn.microsoft.com/rest/api/storageservices/)."""

    def response(self) -> Response:
        """The answer of Azure Storage."""
        error = f"<Code>{self.code}</Code><Message>{escape(str(self))}</Message>"
        text = f'<?xml version="1.0" encoding="utf-8"?><Error>{error}</Error>'
        headers = {
            "x-ms-error-code": self.code,
            "x-ms-request-id": str(uuid.uuid4()),
            "x-ms-version": VERSION,
        }
        if self.status == 304:
            return Response(None, 304, headers)
        return Response(text, self.status, headers, "application/xml")


def invalid_name(message: str) -> StorageError:
    """400 for a name that cannot be stored."""
    return StorageError(400, "InvalidResourceName", message)


def invalid_header(name: str) -> StorageError:
    """400 for a header whose value is wrong."""
    return StorageError(400, "InvalidHeaderValue", f"The value of the header `{name}` is not valid.")


def invalid_query(name: str) -> StorageError:
    """400 for a query parameter whose value is wrong."""
    return StorageError(
        400, "InvalidQueryParameterValue", f"The value of the parameter `{name}` is not valid."
    )


def unsupported(what: str) -> StorageError:
    """501, which clients do not repeat."""
    return StorageError(501, "NotImplemented", f"The local workspace does not support {what}.")
