"""Connections of a workspace and rules of its network: kept as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response

from worldsize.serving.control.call import Call
from worldsize.serving.control.document import JsonObject, answer, take_about, take_object, take_text
from worldsize.serving.control.operations import operation_headers
from worldsize.serving.control.paging import answer_page
from worldsize.serving.control.resources import (
    Resource,
    delete_resource,
    get_resource,
    list_resources,
    put_resource,
)
from worldsize.serving.control.system_data import describe_times
from worldsize.serving.errors import ServiceError, not_found

_TYPES = {"connections": "connections", "outboundrules": "outboundRules"}  # of Azure Resource Manager
_REQUIRED = {"connections": ("category", "authType"), "outboundrules": ("type",)}


def handle(call: Call) -> Response:
    """Answer a request for ``connections`` or ``outboundRules``."""
    if call.name is None:
        return _list(call)
    if call.method in ("PUT", "PATCH") and call.action is None:
        return _put(call)
    resource = get_resource(call.workspace.database, call.kind, call.name)
    if call.method == "DELETE" and call.action is None:
        delete_resource(call.workspace.database, call.kind, call.name)
        return Response(status_code=200 if resource is not None else 204)
    if resource is None:
        raise not_found(f"{_TYPES[call.kind]}/{call.name}")
    if call.action == "listsecrets" and call.method == "POST" and call.kind == "connections":
        return answer(_describe(call, resource, {"credentials": resource.secrets or None}))
    if call.method != "GET" or call.action is not None:
        raise ServiceError(405, "MethodNotAllowed", f"{call.method} of {call.kind} is not allowed.")
    return answer(_describe(call, resource))


def _list(call: Call) -> Response:
    category = call.query.get("category", "").lower()
    found = list_resources(call.workspace.database, call.kind)
    if category:
        found = filter(lambda each: str(each.body.get("category", "")).lower() == category, found)
    return answer_page(call, found, partial(_describe, call))


def _put(call: Call) -> Response:
    properties = take_object(call.body, "properties")
    database, name = call.workspace.database, call.name or ""
    before = get_resource(database, call.kind, name)
    if call.method == "PATCH":
        if before is None:
            raise not_found(f"{_TYPES[call.kind]}/{name}")
        properties = {**before.body, **properties}
    take_about(properties)
    for key in _REQUIRED[call.kind]:
        take_text(properties, key, "properties.", required=True)
    secrets = take_object(properties, "credentials", "properties.") if "credentials" in properties else None
    body = {key: value for key, value in properties.items() if key != "credentials"}
    resource = put_resource(database, call.kind, name, body, secrets)
    # azure-ai-ml takes 200 only, for a new one too.
    headers = operation_headers(call) if call.kind == "outboundrules" else None
    return answer(_describe(call, resource), 200, headers)


def _describe(call: Call, resource: Resource, more: Mapping[str, Any] | None = None) -> JsonObject:
    properties: JsonObject = {**resource.body, **(more or {})}
    if call.kind == "connections":
        properties = {"metadata": {}, "target": None, "isSharedToAll": False, **properties}
        if more is None:
            properties["credentials"] = None
    else:
        properties = {"category": "UserDefined", "status": "Active", **properties}
    kind = _TYPES[call.kind]
    return {
        "id": f"{call.scope.id}/{kind}/{resource.name}",
        "name": resource.name,
        "type": f"Microsoft.MachineLearningServices/workspaces/{kind}",
        "properties": properties,
        "systemData": describe_times(resource.created, resource.modified),
    }
