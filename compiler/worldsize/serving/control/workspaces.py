"""The workspace, which answers to every name because clients write their own, and what lies above it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from starlette.responses import Response

from worldsize.facts import prices, vm_sizes
from worldsize.facts.vm_sizes import VmSize
from worldsize.serving.control.assets import delete_resource, get_resource, put_resource
from worldsize.serving.control.call import (
    CREATED,
    LONGEST_DESCRIPTION,
    PROVIDER,
    Call,
    Handlers,
    JsonObject,
    describe_times,
    operation_headers,
    take_object,
    take_text,
    take_texts,
)
from worldsize.serving.control.paths import project_settings
from worldsize.serving.errors import ServiceError, answer, bad_request, not_found
from worldsize.serving.workspace import LOCATION, TENANT, Scope, Workspace

_CHANGEABLE = ("description", "friendlyName", "publicNetworkAccess", "imageBuildCompute", "managedNetwork")
DEPENDENTS = {  # the resources that a workspace of Azure stands on, with their types
    "storageAccount": "Microsoft.Storage/storageAccounts",
    "keyVault": "Microsoft.KeyVault/vaults",
    "applicationInsights": "Microsoft.Insights/components",
}
_ACTIONS: dict[str, Callable[[Call], object]] = {
    "listkeys": lambda call: {
        "userStorageKey": "",
        "userStorageResourceId": _dependent(call.scope, "storageAccount"),
        "appInsightsInstrumentationKey": "",
    },
    "liststorageaccountkeys": lambda _call: {"userStorageKey": ""},
    "listnotebookaccesstoken": lambda _call: {"accessToken": "", "expiresIn": 0, "tokenType": "Bearer"},
    "listnotebookkeys": lambda _call: {"primaryAccessKey": "", "secondaryAccessKey": ""},
    "diagnose": lambda _call: {"value": {}},
    "resynckeys": lambda _call: {},
    "preparenotebook": lambda _call: {},
    "provisionmanagednetwork": lambda _call: {"status": "Active", "sparkReady": False},
}
_LISTS = ("privateendpointconnections", "privatelinkresources", "features", "skus", "usages")


def _delete(call: Call) -> Response:
    if not delete_resource(call.database, "workspaces", call.scope.workspace):
        raise bad_request(
            f"The workspace {call.scope.workspace} is the one that `worldsize serve` keeps in"
            f" {call.workspace.home.root}. To delete it, stop the server and delete this folder."
        )
    return Response(status_code=202, headers=operation_headers(call))


def _change(call: Call) -> Response:
    """Keep what a client sets on a name; the data of all names stays the same."""
    properties = take_object(call.body, "properties")
    tags = take_texts(call.body, "tags")
    take_text(properties, "description", "properties.", most=LONGEST_DESCRIPTION)
    database, name = call.database, call.scope.workspace
    before = get_resource(database, "workspaces", name)
    body = {} if before is None else dict(before.body)
    body |= {key: properties[key] for key in _CHANGEABLE if properties.get(key) is not None}
    if "tags" in call.body:
        body["tags"] = tags
    put_resource(database, "workspaces", name, body)
    return answer(_describe_workspace(call.workspace, call.scope), 200, operation_headers(call))


def _describe_workspace(workspace: Workspace, scope: Scope) -> JsonObject:
    """The resource of the workspace under the name that a request gave it."""
    stored = get_resource(workspace.database, "workspaces", scope.workspace)
    settings = {} if stored is None else dict(stored.body)
    times = (CREATED, CREATED) if stored is None else (stored.created, stored.modified)
    tags = settings.pop("tags", {})
    host = urlsplit(workspace.endpoints.api).netloc
    guid = str(uuid5(NAMESPACE_URL, str(workspace.home.root.resolve())))  # it stays with the home
    return {
        "id": scope.id,
        "name": scope.workspace,
        "type": "Microsoft.MachineLearningServices/workspaces",
        "location": LOCATION,
        "kind": "Default",
        "tags": tags,
        "etag": None,
        "sku": {"name": "Basic", "tier": "Basic"},
        "identity": {"type": "SystemAssigned", "principalId": guid, "tenantId": TENANT},
        "properties": {
            "friendlyName": scope.workspace,
            "description": "",
            "workspaceId": guid,
            "provisioningState": "Succeeded",
            "storageAccount": _dependent(scope, "storageAccount", workspace.endpoints.account),
            "keyVault": _dependent(scope, "keyVault"),
            "applicationInsights": _dependent(scope, "applicationInsights"),
            "containerRegistry": None,
            "hbiWorkspace": False,
            "tenantId": TENANT,
            "publicNetworkAccess": "Enabled",
            "discoveryUrl": f"{workspace.endpoints.api}/discovery",
            "mlFlowTrackingUri": f"azureml://{host}/mlflow/v2.0{scope.id}",
            "v1LegacyMode": False,
            "creationTime": times[0],
            "allowPublicAccessWhenBehindVnet": False,
            "privateEndpointConnections": [],
            "managedNetwork": {"isolationMode": "Disabled", "outboundRules": {}},
            **settings,
        },
        "systemData": describe_times(*times),
    }


def _dependent(scope: Scope, what: str, name: str = "worldsize") -> str:
    group = f"/subscriptions/{scope.subscription}/resourceGroups/{scope.group}"
    return f"{group}/providers/{DEPENDENTS[what]}/{name.rpartition('/')[2]}"


def describe_discovery(workspace: Workspace) -> JsonObject:
    """The addresses of the workspace's services; all are this server's."""
    base, page = workspace.endpoints.api, workspace.endpoints.page.rstrip("/")
    services = ("api", "history", "mlflow", "experimentation", "modelmanagement", "catalog", "pipelines")
    more = ("notebooks", "hyperdrive", "inferencing", "artifact", "data", "jasmine")
    return {**dict.fromkeys((*services, *more), base), "studio": page}


HANDLERS: Handlers = {
    "GET all": lambda call: _describe_workspace(call.workspace, call.scope),
    "PUT all": _change,
    "PATCH all": _change,
    "DELETE all": _delete,
}
# Actions and lists of the workspace as a whole.
ACTION_HANDLERS: Mapping[str, Handlers] = {
    **{kind: {"POST all": act} for kind, act in _ACTIONS.items()},
    **{kind: {"GET all": lambda _call: {"value": []}} for kind in _LISTS},
}


Names = Mapping[str, str]  # in a path
_TYPES = ("workspaces", "registries", "workspaces/computes", "workspaces/jobs", "workspaces/data")


def answer_above(workspace: Workspace, method: str, segments: Sequence[str]) -> Response:
    """Answer a request whose path does not lead into a workspace: from ``subscriptions`` or ``providers`` on.

    Raises:
        ServiceError: 404, for what only Azure has.
    """
    path = "/".join(segment for segment in segments if segment)
    if (
        method == "DELETE" and "/providers/" in path.lower()
    ):  # the resources beside a workspace that is deleted
        return Response(status_code=204)
    if method not in ("GET", "HEAD"):
        raise ServiceError(
            405, "MethodNotAllowed", f"worldsize serve keeps one workspace, so {method} is not allowed here."
        )
    for pattern, describe in _ABOVE.items():
        if (match := re.fullmatch(pattern, path, re.IGNORECASE)) is not None:
            return answer(describe(workspace, match.groupdict()))
    raise not_found(f"/{path[:300]}")


def _subscription(name: str) -> JsonObject:
    return {
        "id": f"/subscriptions/{name}",
        "subscriptionId": name,
        "tenantId": TENANT,
        "displayName": "worldsize serve",
        "state": "Enabled",
    }


def _location(subscription: str) -> JsonObject:
    return {
        "id": f"/subscriptions/{subscription}/locations/{LOCATION}",
        "name": LOCATION,
        "displayName": "East US",
    }


def _describe_provider() -> JsonObject:
    types = [
        {"resourceType": name, "locations": ["East US"], "apiVersions": ["2024-10-01"]} for name in _TYPES
    ]
    return {
        "namespace": "Microsoft.MachineLearningServices",
        "registrationState": "Registered",
        "resourceTypes": types,
    }


def _describe_group(subscription: str, name: str) -> JsonObject:
    return {
        "id": f"/subscriptions/{subscription}/resourceGroups/{name}",
        "name": name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": LOCATION,
        "tags": {},
        "properties": {"provisioningState": "Succeeded"},
    }


def _describe_dependent(_workspace: Workspace, names: Names) -> JsonObject:
    group, kind, name = _describe_group(names["subscription"], names["group"]), names["kind"], names["name"]
    return {**group, "id": f"{group['id']}/providers/{kind}/{name}", "name": name, "type": kind}


def _list_workspaces(workspace: Workspace, names: Names) -> JsonObject:
    group = names.get("group", workspace.scope.group)
    scope = Scope(names["subscription"], group, workspace.scope.workspace)
    return {"value": [_describe_workspace(workspace, scope)]}


def _describe_location(workspace: Workspace, names: Names) -> JsonObject:
    location, what = names["location"].lower(), names["what"].lower()
    last = (names["rest"] or names["what"]).rpartition("/")[2]
    base = (
        f"/subscriptions/{names['subscription']}/providers/Microsoft.MachineLearningServices"
        f"/locations/{location}"
    )
    if what == "mfeoperationsstatus":
        return {"id": f"{base}/{what}/{last}", "name": last, "status": "Succeeded"}
    if what == "mfeoperationresults":
        return {}
    sizes = [
        size for name in vm_sizes.names() if (size := vm_sizes.lookup(name)) and size.status != "retired"
    ]
    if what == "vmsizes":
        learned = project_settings(workspace).vm_sizes.values()
        return {"value": [_size(size) for size in (*sizes, *learned)]}
    families = sorted({size.family for size in sizes})
    if what in ("usages", "quotas"):
        return {"value": [_limit(base, what, location, family) for family in families]}
    raise not_found(f"`{what[:60]}` of the location {location[:60]}")


def _size(size: VmSize) -> JsonObject:
    disk = size.temp_disk_gib
    return {
        "name": size.name.upper(),
        "family": f"standard{size.family}Family" if size.family else "",
        "vCPUs": size.vcpus,
        "gpus": size.devices,
        "osVhdSizeMB": 1047552,
        "maxResourceVolumeMB": 0 if disk is None else int(disk * 1024),
        "memoryGB": size.ram_gib,
        "lowPriorityCapable": prices.has_price(size.name, "low_priority"),
        "premiumIO": "s" in size.name.rpartition("_")[0][-3:].lower()
        or size.name.lower().startswith("standard_ds"),
        "supportedComputeTypes": ["AmlCompute", "ComputeInstance"],
        "estimatedVMPrices": None,
    }


def _limit(base: str, what: str, location: str, family: str) -> JsonObject:
    """A family's quota or use: no instance of Azure is ever in use, and none is limited in number."""
    name = {"value": f"standard{family}Family", "localizedValue": f"Standard {family} Family Cluster vCPUs"}
    return {
        "id": f"{base}/{what}/{name['value']}",
        "amlWorkspaceLocation": location,
        "type": f"Microsoft.MachineLearningServices/{what}",
        "unit": "Count",
        "limit": -1,  # none is set
        **({"currentValue": 0} if what == "usages" else {}),
        "name": name,
    }


_SUBSCRIPTION = "subscriptions/(?P<subscription>[^/]+)"
_GROUP = f"{_SUBSCRIPTION}/resourcegroups/(?P<group>[^/]+)"
_PROVIDER = f"providers/{re.escape(PROVIDER)}"
_DEPENDENT = "|".join(map(re.escape, DEPENDENTS.values()))
# By patterns of the path in any case, of which the first that fits counts.
_ABOVE: Mapping[str, Callable[[Workspace, Names], object]] = {
    "providers/[^/]+/operations(?:/.*)?": lambda _workspace, _names: {"value": []},
    f"(?:{_SUBSCRIPTION}/)?providers": lambda _workspace, _names: {"value": [_describe_provider()]},
    "providers/.*": lambda _workspace, _names: {"value": [_describe_provider()]},
    "subscriptions": lambda workspace, _names: {"value": [_subscription(workspace.scope.subscription)]},
    _SUBSCRIPTION: lambda _workspace, names: _subscription(names["subscription"]),
    f"{_SUBSCRIPTION}/resourcegroups": lambda workspace, names: {
        "value": [_describe_group(names["subscription"], workspace.scope.group)]
    },
    _GROUP: lambda _workspace, names: _describe_group(names["subscription"], names["group"]),
    f"{_GROUP}/{_PROVIDER}/workspaces": _list_workspaces,
    f"{_GROUP}/providers/(?P<kind>{_DEPENDENT})/(?P<name>[^/]+)": _describe_dependent,
    f"{_SUBSCRIPTION}/locations(?:/.*)?": lambda _workspace, names: {
        "value": [_location(names["subscription"])]
    },
    f"{_SUBSCRIPTION}/{_PROVIDER}": lambda _workspace, _names: _describe_provider(),
    f"{_SUBSCRIPTION}/{_PROVIDER}/workspaces": _list_workspaces,
    f"{_SUBSCRIPTION}/(?:resourcegroups/[^/]+/)?{_PROVIDER}/registries": lambda _workspace, _names: {
        "value": []
    },
    f"{_SUBSCRIPTION}/{_PROVIDER}/locations/(?P<location>[^/]+)/(?P<what>[^/]+)(?P<rest>/.*)?": (
        _describe_location
    ),
}
