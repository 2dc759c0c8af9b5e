"""One request to the management API, taken apart: what every resource's handler gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import msgspec
from starlette.responses import Response

from worldsize.serving.errors import ServiceError, answer, bad_request, not_found
from worldsize.serving.workspace import LOCATION, Scope, Workspace

PROVIDER = "microsoft.machinelearningservices"
_LONGEST = 1024  # characters of one segment


class ResourcePath(msgspec.Struct, frozen=True):
    """A path ``…/{container}/{workspace}/{kind}[/{name}[/versions/{version}]][/{action}]``.

    ``container`` is ``workspaces`` or ``registries``. What the path does not have is empty. ``kind`` and
    ``action`` are in lower case, because clients write them in any case. Names are decoded.
    """

    scope: Scope
    container: str = "workspaces"
    kind: str = ""
    name: str = ""
    label: str = ""  # of …/labels/{label}
    versions: bool = False  # whether the path has a segment `versions`
    version: str = ""
    action: str = ""


class Call(ResourcePath, frozen=True, kw_only=True):
    """A request; ``base`` is the scheme and host that the client used, for links in the answer."""

    workspace: Workspace
    base: str
    method: str
    query: Mapping[str, str] = {}  # its keys in lower case
    body: Mapping[str, Any] = {}

    @property
    def id(self) -> str:
        """The id of the resource itself."""
        version = f"versions/{self.version}" if self.version else ""
        return "/".join(part for part in (self.scope.id, self.kind, self.name, version) if part)

    @property
    def operation(self) -> str:
        """The method, and what the path names: ``GET all``, ``PUT version`` or ``POST one/listsecrets``."""
        if not self.name:
            place = "all"
        elif self.label:
            place = "label"
        elif self.versions:
            place = "version" if self.version else "versions"
        else:
            place = "one"
        return f"{self.method} {place}" + (f"/{self.action}" if self.action else "")


# Of a document; of a response where its status or headers matter; or of what waits for one of both.
Handler: TypeAlias = Callable[[Call], object]
Handlers: TypeAlias = Mapping[str, Handler]  # by the operation of the call


def find_handler(call: Call, handlers: Handlers) -> Handler:
    """The handler of a call's operation.

    Raises:
        ServiceError: 404, there is no such action; 405, the method is not allowed.
    """
    if (handler := handlers.get(call.operation)) is not None:
        return handler
    if call.action:
        raise not_found(f"The action `{call.action[:60]}` of {call.kind}")
    kind = call.kind or "a workspace"
    raise ServiceError(405, "MethodNotAllowed", f"{call.method} of {kind} is not allowed.")


async def answer_beside(workspace: Workspace, method: str, handle: Callable[[], object]) -> Response:
    """Answer in a thread, beside the event loop, what does not wait itself.

    There a change sees and makes one state of the database.
    """

    def respond() -> object:
        answered = handle()
        return answered if isinstance(answered, Response | Awaitable) else answer(answered)

    answered: object
    if asyncio.iscoroutinefunction(handle):
        answered = handle()
    elif method == "GET":
        answered = await asyncio.to_thread(respond)
    else:
        answered = await workspace.database.change(respond)
    if isinstance(answered, Awaitable):
        answered = await answered
    return answered if isinstance(answered, Response) else answer(answered)


def operation_headers(call: Call) -> Mapping[str, str]:
    """``Azure-AsyncOperation`` and ``Location`` of the operation that a request began.

    It is over when the answer is sent; with these headers a client polls as it does in Azure.
    """
    base = (
        f"{call.base}/subscriptions/{call.scope.subscription}/providers"
        f"/Microsoft.MachineLearningServices/locations/{LOCATION}"
    )
    name = uuid4()
    return {
        "Azure-AsyncOperation": f"{base}/mfeOperationsStatus/{name}?api-version=2024-10-01",
        "Location": f"{base}/mfeOperationResults/{name}?api-version=2024-10-01",
    }


def split_path(raw: bytes) -> list[str]:
    """The decoded segments of a path as it was sent; an encoded slash stays inside its segment.

    Raises:
        ServiceError: 400, a segment is not UTF-8, has control characters or is too long.
    """
    segments = []
    for part in raw.split(b"?")[0].strip(b"/").split(b"/"):
        try:
            segment = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise bad_request("The path is not UTF-8.") from None
        if len(segment) > _LONGEST or any(ord(letter) < 32 or letter == "\x7f" for letter in segment):
            raise bad_request("The path has a segment that cannot be a name.")
        segments.append(segment)
    return segments


def parse_resource(segments: Sequence[str]) -> ResourcePath | None:
    """The resource of a workspace or registry; None if the path is of something else.

    The segments begin with ``subscriptions``; words of Azure Resource Manager are in any case.
    """
    words = [segment.lower() for segment in segments]
    if len(segments) < 8 or "" in segments[:8]:
        return None
    if words[:5:2] != ["subscriptions", "resourcegroups", "providers"] or words[5] != PROVIDER:
        return None
    if words[6] not in ("workspaces", "registries"):
        return None
    return _parse_inner(Scope(segments[1], segments[3], segments[7]), words[6], segments[8:])


def _parse_inner(scope: Scope, container: str, inner: Sequence[str]) -> ResourcePath:
    if "" in inner:
        raise ServiceError(404, "InvalidResourceName", "The path has an empty segment.")
    if not inner:
        return ResourcePath(scope, container)
    kind, name, rest = inner[0].lower(), "".join(inner[1:2]), list(inner[2:])
    word = rest[0].lower() if rest else ""
    versions, version, label = word == "versions", "", ""
    if versions:
        version, rest = "".join(rest[1:2]), rest[2:]
    elif word == "labels" and len(rest) > 1:
        label, rest = rest[1], rest[2:]
    return ResourcePath(scope, container, kind, name, label, versions, version, "/".join(rest).lower())
