"""Connections of a workspace and rules of its network: kept as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response

from worldsize.serving.control.assets import (
    Resource,
    delete_resource,
    get_resource,
    list_resources,
    put_resource,
)
from worldsize.serving.control.call import (
    Call,
    Handlers,
    JsonObject,
    answer_deletion,
    answer_page,
    describe_resource,
    operation_headers,
    take_about,
    take_object,
    take_text,
)
from worldsize.serving.errors import answer, not_found

_TYPES = {"connections": "connections", "outboundrules": "outboundRules"}  # of Azure Resource Manager
_REQUIRED = {"connections": ("category", "authType"), "outboundrules": ("type",)}


def _list_secrets(call: Call) -> object:
    resource = _require(call)
    if call.kind != "connections":
        raise not_found(f"The action `{call.action}` of {call.kind}")
    return _describe(call, resource, {"credentials": resource.secrets or None})


def _require(call: Call) -> Resource:
    resource = get_resource(call.workspace.database, call.kind, call.name)
    if resource is None:
        raise not_found(f"{_TYPES[call.kind]}/{call.name}")
    return resource


def _list(call: Call) -> Response:
    category = call.query.get("category", "").lower()
    resources = list_resources(call.workspace.database, call.kind)
    if category:
        resources = filter(
            lambda resource: str(resource.body.get("category", "")).lower() == category, resources
        )
    return answer_page(call, resources, partial(_describe, call))


def _put(call: Call) -> Response:
    properties = take_object(call.body, "properties")
    database, name = call.workspace.database, call.name
    if call.method == "PATCH":
        properties = {**_require(call).body, **properties}
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
    id_, name = f"{call.scope.id}/{kind}/{resource.name}", resource.name
    return describe_resource(
        id_, f"workspaces/{kind}", name, properties, (resource.created, resource.modified)
    )


HANDLERS: Handlers = {
    "GET all": _list,
    "GET one": lambda call: _describe(call, _require(call)),
    "PUT one": _put,
    "PATCH one": _put,
    "DELETE one": lambda call: answer_deletion(
        delete_resource(call.workspace.database, call.kind, call.name)
    ),
    "POST one/listsecrets": _list_secrets,
}
