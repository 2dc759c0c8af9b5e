"""The errors of the blob service, which answers XML where the management API answers JSON."""

from __future__ import annotations

import uuid
from xml.sax.saxutils import escape

from starlette.responses import Response

from worldsize.serving.errors import ServiceError

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


def blob_not_found() -> StorageError:
    """404 for a blob."""
    return StorageError(404, "BlobNotFound", "The specified blob does not exist.")


def container_not_found() -> StorageError:
    """404 for a container."""
    return StorageError(404, "ContainerNotFound", "The specified container does not exist.")


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
