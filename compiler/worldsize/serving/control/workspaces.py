"""The workspace itself. One workspace answers to every name, because clients write the names of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, uuid5

from starlette.responses import Response

from worldsize.serving.control.call import Call, Handlers, operation_headers
from worldsize.serving.control.document import (
    LONGEST_DESCRIPTION,
    JsonObject,
    take_object,
    take_text,
    take_texts,
)
from worldsize.serving.control.resources import delete_resource, get_resource, put_resource
from worldsize.serving.control.system_data import describe_times
from worldsize.serving.errors import answer, bad_request
from worldsize.serving.workspace import LOCATION, TENANT, Scope, Workspace

_CREATED = "2026-01-01T00:00:00.000000Z"
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


def _get(call: Call) -> Response:
    return answer(describe_workspace(call.workspace, call.scope))


def _delete(call: Call) -> Response:
    if not delete_resource(call.workspace.database, "workspaces", call.scope.workspace):
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
    database, name = call.workspace.database, call.scope.workspace
    before = get_resource(database, "workspaces", name)
    body = {} if before is None else dict(before.body)
    body |= {key: properties[key] for key in _CHANGEABLE if properties.get(key) is not None}
    if "tags" in call.body:
        body["tags"] = tags
    put_resource(database, "workspaces", name, body)
    return answer(describe_workspace(call.workspace, call.scope), 200, operation_headers(call))


def workspace_guid(workspace: Workspace) -> str:
    """The workspace's own id, which stays with its home."""
    return str(uuid5(NAMESPACE_URL, str(workspace.home.root.resolve())))


def describe_workspace(workspace: Workspace, scope: Scope) -> JsonObject:
    """The resource of the workspace under the name that a request gave it."""
    stored = get_resource(workspace.database, "workspaces", scope.workspace)
    given = {} if stored is None else dict(stored.body)
    times = (_CREATED, _CREATED) if stored is None else (stored.created, stored.modified)
    tags = given.pop("tags", {})
    host = urlsplit(workspace.endpoints.api).netloc
    guid = workspace_guid(workspace)
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
            **given,
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


def _list_nothing(_call: Call) -> Response:
    return answer({"value": []})


def _act(call: Call) -> Response:
    return answer(_ACTIONS[call.kind](call))


HANDLERS: Handlers = {"GET all": _get, "PUT all": _change, "PATCH all": _change, "DELETE all": _delete}
# Actions and lists of the workspace as a whole.
ACTION_HANDLERS: Mapping[str, Handlers] = {
    **{kind: {"POST all": _act} for kind in _ACTIONS},
    **{kind: {"GET all": _list_nothing} for kind in _LISTS},
}
