"""Connections of a workspace and rules of its network, kept as they are written; and its datastores."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
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
    CREATED,
    Call,
    Handlers,
    JsonObject,
    answer_deletion,
    answer_page,
    describe_resource,
    operation_headers,
    take_about,
    take_flag,
    take_object,
    take_text,
)
from worldsize.serving.database import text_of
from worldsize.serving.errors import ServiceError, answer, bad_request, not_found
from worldsize.serving.front.guard import sign_path
from worldsize.serving.workspace import BLOB_STORE, CONTAINERS, Workspace

_TYPES = {"connections": "connections", "outboundrules": "outboundRules"}  # of Azure Resource Manager
_REQUIRED = {"connections": ("category", "authType"), "outboundrules": ("type",)}


def _list_secrets(call: Call) -> object:
    resource = _require(call)
    return _describe(call, resource, {"credentials": resource.secrets or None})


def _require(call: Call) -> Resource:
    resource = get_resource(call.database, call.kind, call.name)
    if resource is None:
        raise not_found(f"{_TYPES[call.kind]}/{call.name}")
    return resource


def _list(call: Call) -> Response:
    category = call.query.get("category", "").lower()
    resources = (
        resource
        for resource in list_resources(call.database, call.kind)
        if category in ("", text_of(resource.body, "category").lower())
    )
    return answer_page(call, resources, _describe)


def _put(call: Call) -> Response:
    properties = take_object(call.body, "properties")
    if call.method == "PATCH":
        properties = {**_require(call).body, **properties}
    take_about(properties)
    for key in _REQUIRED[call.kind]:
        take_text(properties, key, "properties.", required=True)
    secrets = take_object(properties, "credentials", "properties.") if "credentials" in properties else None
    body = {key: value for key, value in properties.items() if key != "credentials"}
    resource = put_resource(call.database, call.kind, call.name, body, secrets)
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
    times = (resource.created, resource.modified)
    return describe_resource(call, (_TYPES[call.kind], resource.name), properties, times)


RULE_HANDLERS: Handlers = {
    "GET all": _list,
    "GET one": lambda call: _describe(call, _require(call)),
    "PUT one": _put,
    "PATCH one": _put,
    "DELETE one": lambda call: answer_deletion(delete_resource(call.database, call.kind, call.name)),
}
HANDLERS: Handlers = {**RULE_HANDLERS, "POST one/listsecrets": _list_secrets}


_STORE_TYPES = {  # the required keys of each type
    "azureblob": ("accountName", "containerName"),
    "azuredatalakegen1": ("storeName",),
    "azuredatalakegen2": ("accountName", "filesystem"),
    "azurefile": ("accountName", "fileShareName"),
    "onelake": ("artifact", "oneLakeWorkspaceName"),
    "hdfs": ("nameNodeAddress",),
}


def _delete_store(call: Call) -> Response:
    if (name := call.name.lower()) in CONTAINERS:
        raise bad_request(f"The datastore {name} belongs to the workspace and cannot be deleted.")
    return answer_deletion(delete_resource(call.database, "datastores", name))


def _list_stores(call: Call) -> Response:
    default = call.query.get("isdefault", "").lower()
    chosen = _default_name(call.workspace)
    names = {name.lower() for name in call.query.get("names", "").split(",") if name}

    def is_wanted(store: Resource) -> bool:
        right = default not in ("true", "false") or (store.name == chosen) == (default == "true")
        return right and (not names or store.name.lower() in names)

    stores = chain(_list_built_in(call.workspace), list_resources(call.database, "datastores"))
    return answer_page(call, filter(is_wanted, stores), _describe_store)


def _list_built_in(workspace: Workspace) -> list[Resource]:
    return [
        Resource(
            "datastores",
            name,
            {
                "datastoreType": "AzureBlob",
                "accountName": workspace.endpoints.account,
                "containerName": container,
                "endpoint": "core.windows.net",
                "protocol": "https",
                "credentials": {"credentialsType": "AccountKey"},
                "serviceDataAccessAuthIdentity": "None",
            },
            CREATED,
            CREATED,
        )
        for name, container in CONTAINERS.items()
    ]


def _default_name(workspace: Workspace) -> str:
    row = get_resource(workspace.database, "defaults", "datastore")
    return BLOB_STORE if row is None else str(row.body["name"])


def _find_store(call: Call) -> Resource:
    name = call.name.lower()
    built_in = next((store for store in _list_built_in(call.workspace) if store.name == name), None)
    store = built_in or get_resource(call.database, "datastores", name)
    if store is None:
        raise ServiceError(404, "UserError", f"Error getting datastore: {call.name} was not found.")
    return store


def _put_store(call: Call) -> Response:
    if call.name.lower() in CONTAINERS:
        raise bad_request(f"The datastore {call.name} belongs to the workspace and cannot be changed.")
    properties = take_object(call.body, "properties")
    where = "properties."
    kind = take_text(properties, "datastoreType", where, required=True)
    if kind.lower() not in _STORE_TYPES:
        raise bad_request(f"`properties.datastoreType` `{kind[:60]}` is not a type of datastore.")
    for key in _STORE_TYPES[kind.lower()]:
        if key == "artifact":
            take_object(properties, key, where)
        else:
            take_text(properties, key, where, required=True)
    credentials = take_object(properties, "credentials", where)
    take_text(credentials, "credentialsType", f"{where}credentials.", required=True)
    take_about(properties, where)
    default = take_flag(properties, "isDefault", where)
    has_secrets = credentials.get("secrets") is not None
    secrets = take_object(credentials, "secrets", f"{where}credentials.") if has_secrets else None
    kept: JsonObject = {key: value for key, value in credentials.items() if key != "secrets"}
    body = {"description": None, "tags": {}, "properties": {}, **properties, "credentials": kept}
    with call.database.transaction():
        before = get_resource(call.database, "datastores", call.name)
        store = put_resource(call.database, "datastores", call.name, body, secrets)
        if default:
            put_resource(call.database, "defaults", "datastore", {"name": store.name})
    return answer(_describe_store(call, store), 200 if before is not None else 201)


def _list_store_secrets(call: Call) -> object:
    store = _find_store(call)
    container = store.body.get("containerName") or store.body.get("filesystem")
    kind = str(store.body["credentials"].get("credentialsType", ""))
    if kind.lower() == "none":
        raise bad_request(f"The datastore {store.name} has no credentials.")
    here = store.body.get("accountName") == call.workspace.endpoints.account
    signs = here and kind.lower() in ("accountkey", "sas")
    wanted = signs and (take_flag(call.body, "expirableSecret") or not store.secrets)
    if wanted and isinstance(container, str):
        # The blobs of this workspace know no other signature than ours; those elsewhere do not know it.
        return {"secretsType": "Sas", "sasToken": sign_path(call.workspace, container)}
    return {"secretsType": kind, **store.secrets}


def _describe_store(call: Call, store: Resource) -> JsonObject:
    properties = {
        "description": None,
        "tags": {},
        "properties": {},
        **store.body,
        "isDefault": store.name == _default_name(call.workspace),
        "subscriptionId": call.scope.subscription,
        "resourceGroup": call.scope.group,
    }
    times = (store.created, store.modified)
    return describe_resource(call, ("datastores", store.name), properties, times)


STORE_HANDLERS: Handlers = {
    "GET all": _list_stores,
    "GET one": lambda call: _describe_store(call, _find_store(call)),
    "PUT one": _put_store,
    "DELETE one": _delete_store,
    "POST one/listsecrets": _list_store_secrets,
}
