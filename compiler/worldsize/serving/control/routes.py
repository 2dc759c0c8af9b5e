"""The routes of the management API: a path becomes a call, and its kind chooses the handler."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.control import (
    asset_calls,
    computes,
    connections,
    datastores,
    models,
    refused,
    registries,
    workspaces,
)
from worldsize.serving.control.assets import KINDS
from worldsize.serving.control.call import Call, answer_beside
from worldsize.serving.control.document import JsonObject, answer, read_object
from worldsize.serving.control.parse import ResourcePath, parse_resource, split_path
from worldsize.serving.control.subscriptions import answer_above
from worldsize.serving.errors import ServiceError, bad_request
from worldsize.serving.jobs import control as jobs
from worldsize.serving.schedules import control as schedules
from worldsize.serving.workspace import Workspace

Handler: TypeAlias = Callable[[Call], Response | Awaitable[Response]]
HANDLERS: dict[str, Handler] = {
    "": workspaces.handle,
    **dict.fromkeys(KINDS, asset_calls.handle),
    "models": models.handle,
    **dict.fromkeys(workspaces.ACTION_KINDS, workspaces.handle_action),
    **dict.fromkeys(refused.KINDS, refused.handle),
    "computes": computes.handle,
    "connections": connections.handle,
    "datastores": datastores.handle,
    "jobs": jobs.handle,
    "schedules": schedules.handle,
    "outboundrules": connections.handle,
}
_RESOURCE = (re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"), "up to 255 letters, digits, `-` and `_`")
NAMES = {  # of what is created by a request; those of jobs and assets are checked where others create them
    "computes": (
        re.compile(r"[A-Za-z][A-Za-z0-9-]{1,31}|<[\w -]{1,60}>", re.ASCII),  # or an example's placeholder
        "2 to 32 letters, digits and `-`, the first a letter",
    ),
    **dict.fromkeys(("connections", "datastores", "outboundrules", "schedules"), _RESOURCE),
}
LATER = {  # parts that come after this one
    "jobs": "worldsize.serving.jobs.control",
    "schedules": "worldsize.serving.schedules.control",
}
METHODS = ["GET", "PUT", "POST", "PATCH", "DELETE"]
# The same API at the workspace's own host, and what that offers of assets for generative AI.
_PREFIXES = ("mferp/managementfrontend", "genericasset", "genericasset/v2.0")


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of the management API, and of the documents that say where the services are."""
    handlers = {**HANDLERS, **_later_handlers()}

    async def manage(request: Request) -> Response:
        return await answer_request(workspace, request, handlers)

    async def discover(_request: Request) -> Response:
        return answer(workspaces.describe_discovery(workspace))

    async def find_registry(request: Request) -> Response:
        return answer(registries.describe_discovery(workspace, request.path_params["name"]))

    paths = ("/subscriptions", "/subscriptions/{rest:path}", "/providers", "/providers/{rest:path}")
    return [
        *(Route(path, manage, methods=METHODS) for path in paths),
        *(Route(f"/{prefix}/subscriptions/{{rest:path}}", manage, methods=METHODS) for prefix in _PREFIXES),
        Route("/discovery", discover),
        Route("/discovery/{rest:path}", discover),
        Route("/registrymanagement/v1.0/registries/{name}/discovery", find_registry),
        Route("/registrymanagement/v1.0/registries/{name}", find_registry),
    ]


def _later_handlers() -> dict[str, Handler]:
    found = {}
    for kind, name in LATER.items():
        package = name.rpartition(".")[0]
        if importlib.util.find_spec(package) is not None and importlib.util.find_spec(name) is not None:
            found[kind] = importlib.import_module(name).handle
    return found


async def answer_request(workspace: Workspace, request: Request, handlers: Mapping[str, Handler]) -> Response:
    """Answer one request to the management API.

    Args:
        workspace: What is managed.
        request: Of any method.
        handlers: By the kind of resource in lower case.

    Raises:
        ServiceError: Whatever is wrong with it.
    """
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    segments = split_path(_strip_prefix(raw))
    path = parse_resource(segments)
    if path is None:
        return await asyncio.to_thread(answer_above, workspace, request.method, segments)
    call = _make_call(workspace, request, path, await read_object(request))
    handler = registries.handle if path.container == "registries" else handlers.get(path.kind)
    if handler is None:
        raise ServiceError(404, "InvalidResourceType", f"worldsize serve does not offer `{path.kind[:60]}`.")
    if call.method in ("PUT", "PATCH") and path.kind in NAMES:
        _check_name(path.kind, path.name or "")
    return await answer_beside(call.workspace, call.method, partial(handler, call))


def _check_name(kind: str, name: str) -> None:
    pattern, words = NAMES[kind]
    if pattern.fullmatch(name) is None:
        what = kind.removesuffix("s")
        raise bad_request(f"`{name[:80]}` cannot be the name of a {what}: use {words}.")


def _strip_prefix(raw: bytes) -> bytes:
    """A path as it is at the host of the management API."""
    path = raw.strip(b"/")
    found = next((each for each in _PREFIXES if path.startswith(f"{each}/subscriptions/".encode())), "")
    return path[len(found) :].lstrip(b"/")


def _make_call(workspace: Workspace, request: Request, path: ResourcePath, body: JsonObject) -> Call:
    return Call(
        workspace,
        path.scope,
        str(request.base_url).rstrip("/"),
        request.method,
        path.kind,
        path.name,
        path.label,
        path.versions,
        path.version,
        path.action,
        {key.lower(): value for key, value in request.query_params.items()},
        body if request.method != "GET" else {},
    )
