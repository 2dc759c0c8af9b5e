"""The routes of the management API: a path becomes a call, and its kind chooses the handler."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from worldsize.serving.control import asset_calls, computes, registries, resources, workspaces
from worldsize.serving.control.assets import KINDS
from worldsize.serving.control.call import (
    Call,
    Handler,
    Handlers,
    answer_beside,
    find_handler,
    parse_resource,
    read_object,
    split_path,
)
from worldsize.serving.control.workspaces import answer_above
from worldsize.serving.errors import ServiceError, answer, bad_request
from worldsize.serving.jobs import control as jobs
from worldsize.serving.schedules import control as schedules
from worldsize.serving.workspace import Workspace

HANDLERS: dict[str, Handlers] = {
    "": workspaces.HANDLERS,
    **dict.fromkeys(KINDS, asset_calls.HANDLERS),
    "models": asset_calls.MODEL_HANDLERS,
    **workspaces.ACTION_HANDLERS,
    "computes": computes.HANDLERS,
    "connections": resources.HANDLERS,
    "datastores": resources.STORE_HANDLERS,
    "jobs": jobs.HANDLERS,
    "schedules": schedules.HANDLERS,
    "outboundrules": resources.RULE_HANDLERS,
}
ABSENT = {  # kinds of resources that only Azure has
    "onlineendpoints": "online endpoints",
    "batchendpoints": "batch endpoints",
    "serverlessendpoints": "serverless endpoints",
    "inferencepools": "inference pools",
    "marketplacesubscriptions": "subscriptions of the marketplace",
    "featuresets": "feature stores",
    "featurestoreentities": "feature stores",
    "capabilityhosts": "capability hosts",
    "labelingjobs": "data labeling",
    "rayclusters": "Ray clusters",
    "endpoints": "endpoints",
    "indexes": "search indexes",
    "prompts": "prompts",
}
_RESOURCE = (re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"), "up to 255 letters, digits, `-` and `_`")
NAMES = {  # of what is created by a request; those of jobs and assets are checked where others create them
    "computes": (
        re.compile(r"[A-Za-z][A-Za-z0-9-]{1,31}|<[\w -]{1,60}>", re.ASCII),  # or an example's placeholder
        "2 to 32 letters, digits and `-`, the first a letter",
    ),
    **dict.fromkeys(("connections", "datastores", "outboundrules", "schedules"), _RESOURCE),
}
METHODS = ["GET", "PUT", "POST", "PATCH", "DELETE"]
# The same API at the workspace's own host, and what that offers of assets for generative AI.
_PREFIXES = ("mferp/managementfrontend", "genericasset", "genericasset/v2.0")


def routes(workspace: Workspace) -> list[BaseRoute]:
    """The routes of the management API, and of the documents that say where the services are."""
    manage = partial(_answer_request, workspace)

    def discover(_request: Request) -> Response:
        return answer(workspaces.describe_discovery(workspace))

    def find_registry(request: Request) -> Response:
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


async def _answer_request(workspace: Workspace, request: Request) -> Response:
    """Answer one request to the management API."""
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    segments = split_path(_strip_prefix(raw))
    path = parse_resource(segments)
    if path is None:
        return await asyncio.to_thread(answer_above, workspace, request.method, segments)
    body = await read_object(request)
    call = Call(
        **msgspec.structs.asdict(path),
        workspace=workspace,
        base=str(request.base_url).rstrip("/"),
        method=request.method,
        query={key.lower(): value for key, value in request.query_params.items()},
        body=body if request.method != "GET" else {},
    )
    handler = _find_handler(call)
    if call.method in ("PUT", "PATCH") and path.kind in NAMES:
        pattern, words = NAMES[path.kind]
        if pattern.fullmatch(path.name) is None:
            what = path.kind.removesuffix("s")
            raise bad_request(f"`{path.name[:80]}` cannot be the name of a {what}: use {words}.")
    return await answer_beside(call.workspace, call.method, partial(handler, call))


def _find_handler(call: Call) -> Handler:
    if call.container == "registries":
        return registries.handle
    if call.kind in ABSENT:
        return _answer_absent
    if call.kind not in HANDLERS:
        raise ServiceError(404, "InvalidResourceType", f"worldsize serve does not offer `{call.kind[:60]}`.")
    return find_handler(call, HANDLERS[call.kind])


def _answer_absent(call: Call) -> object:
    """Say that the service is not offered. An empty list is the truth of those that were never made."""
    if call.operation in ("GET all", "GET versions"):
        return {"value": []}
    message = f"worldsize serve does not offer {ABSENT[call.kind]}."
    raise ServiceError(404 if call.method == "GET" else 400, "NotSupported", message)


def _strip_prefix(raw: bytes) -> bytes:
    """A path as it is at the host of the management API."""
    path = raw.strip(b"/")
    for prefix in _PREFIXES:
        if path.startswith(f"{prefix}/subscriptions/".encode()):
            return path[len(prefix) + 1 :]
    return path
