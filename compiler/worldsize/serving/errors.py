"""The errors that the service answers, in the shape that Azure's clients read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.responses import JSONResponse


class ServiceError(Exception):
    """An error of a request: an HTTP status, a code such as ``ResourceNotFound``, and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def response(self) -> JSONResponse:
        """The answer of Azure Resource Manager."""
        from starlette.responses import JSONResponse  # the processes of jobs answer nobody

        document = {"error": {"code": self.code, "message": str(self), "details": []}}
        return JSONResponse(document, self.status, {"x-ms-error-code": self.code})


def not_found(what: str) -> ServiceError:
    """404 for a resource; azure-ai-ml raises ``ResourceNotFoundError``."""
    return ServiceError(404, "ResourceNotFound", f"{what} was not found.")


def conflict(what: str) -> ServiceError:
    """409 for a resource that exists; azure-ai-ml raises ``ResourceExistsError``."""
    return ServiceError(409, "Conflict", what)


def bad_request(message: str) -> ServiceError:
    """400 for a body or a value that the service refuses."""
    return ServiceError(400, "ValidationError", message)
