"""What the service answers: JSON documents, and errors in the shape that Azure's clients read."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from worldsize.base.wording import MACHINE_ERRORS, describe_os_error

if TYPE_CHECKING:
    from starlette.responses import Response

encode = msgspec.json.Encoder().encode


def answer(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    from starlette.responses import Response  # the processes of jobs answer nobody

    return Response(encode(document), status, headers, media_type="application/json")


class ServiceError(Exception):
    """An error of a request: an HTTP status, a code such as ``ResourceNotFound``, and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def response(self) -> Response:
        """The answer of Azure Resource Manager."""
        document = {"error": {"code": self.code, "message": str(self), "details": []}}
        return answer(document, self.status, {"x-ms-error-code": self.code})


# Errors of the machine in SQLite's words (sqlite3ErrStr), whose codes Python 3.10 does not have.
_MACHINE = frozenset(
    (
        "database or disk is full",
        "disk I/O error",
        "attempt to write a readonly database",
        "unable to open database file",
    )
)


def explain_refused(error: BaseException) -> str | None:
    """Why the disk refused something, in words; None for an error of another kind."""
    if isinstance(error, OSError) and error.errno in MACHINE_ERRORS:
        return describe_os_error(error, file=True)
    if isinstance(error, sqlite3.OperationalError) and str(error) in _MACHINE:
        return str(error)
    return None


def log_error(what: str, error: BaseException) -> None:
    """Log that something failed: in a sentence where the disk refused it, else with a traceback."""
    logger, reason = logging.getLogger(__name__), explain_refused(error)
    if reason is not None:
        logger.warning("%s: %s", what, reason)
    else:
        logger.error("%s", what, exc_info=error)


def not_found(what: str) -> ServiceError:
    """404 for a resource; azure-ai-ml raises ``ResourceNotFoundError``."""
    return ServiceError(404, "ResourceNotFound", f"{what} was not found.")


def conflict(what: str) -> ServiceError:
    """409 for a resource that exists; azure-ai-ml raises ``ResourceExistsError``."""
    return ServiceError(409, "Conflict", what)


def bad_request(message: str) -> ServiceError:
    """400 for a body or a value that the service refuses."""
    return ServiceError(400, "ValidationError", message)
