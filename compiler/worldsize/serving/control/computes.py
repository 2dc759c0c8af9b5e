"""Computes: those of ``worldsize.yml``, two usual ones, and what clients make. All jobs run here."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
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
    LONGEST_DESCRIPTION,
    Call,
    Handlers,
    JsonObject,
    answer_page,
    describe_resource,
    operation_headers,
    take_count,
    take_object,
    take_text,
    take_texts,
)
from worldsize.serving.control.paths import project_settings
from worldsize.serving.database import mapping_of, now, text_of, use_each
from worldsize.serving.errors import ServiceError, answer, bad_request
from worldsize.serving.workspace import LOCATION, Workspace

_DURATION = re.compile(r"P(?:\d{1,6}D)?(?:T(?:\d{1,9}H)?(?:\d{1,9}M)?(?:\d{1,9}(?:\.\d{1,9})?S)?)?")
_STATES = {"start": "Running", "stop": "Stopped", "restart": "Running"}
_TYPES = (
    "AmlCompute",
    "ComputeInstance",
    "Kubernetes",
    "VirtualMachine",
    "SynapseSpark",
    "AKS",
    "Databricks",
    "HDInsight",
    "DataFactory",
    "DataLakeAnalytics",
)


def _require(call: Call) -> Resource:
    compute = _find_compute(call.workspace, call.name)
    if compute is None:
        message = f"Compute with name {call.name} was not found in workspace {call.scope.workspace}."
        raise ServiceError(404, "ResourceNotFound", message)
    return compute


def _list(call: Call) -> Response:
    wanted = call.query.get("computetype", "").lower()
    computes = (
        compute
        for compute in list_computes(call.workspace)
        if wanted in ("", text_of(mapping_of(compute.body, "properties"), "computeType").lower())
    )
    return answer_page(call, computes, _describe)


def _put(call: Call) -> Response:
    body = _read_body(call.body)
    before = _find_compute(call.workspace, call.name)
    if before is not None and _is_usual(call.workspace, before):
        before = None  # made up here, so the first client that creates it says what it is
    if before is not None:
        _check_same(before.body["properties"], body["properties"])
    elif body["properties"]["computeType"] == "ComputeInstance":
        body["state"] = "Running"
    merged = body if before is None else {**before.body, **body}
    compute = put_resource(call.database, KIND, call.name, merged)
    return answer(_describe(call, compute), 200 if before is not None else 201, operation_headers(call))


def _check_same(before: JsonObject, after: JsonObject) -> None:
    for key, old, new in (
        ("computeType", before["computeType"], after["computeType"]),
        ("properties.vmSize", _size(before), _size(after)),
    ):
        if old.lower() != new.lower():
            message = f"`properties.{key}` of a compute cannot be changed from {old} to {new}."
            raise bad_request(message)


def _size(properties: JsonObject) -> str:
    return str((properties.get("properties") or {}).get("vmSize") or "")


def _read_body(body: Mapping[str, Any]) -> JsonObject:
    properties = take_object(body, "properties")
    kind = take_text(properties, "computeType", "properties.", required=True)
    compute_type = next((name for name in _TYPES if name.lower() == kind.lower()), None)
    if compute_type is None:
        raise bad_request(f"`properties.computeType` `{kind[:60]}` is not a type of compute.")
    inner = take_object(properties, "properties", "properties.")
    where = "properties.properties."
    if compute_type in ("AmlCompute", "ComputeInstance"):
        take_text(inner, "vmSize", where, required=True)
    if compute_type == "AmlCompute":
        inner = {"vmPriority": "Dedicated", **inner, "scaleSettings": _read_scale(inner)}
    take_text(inner, "vmPriority", where)
    take_text(properties, "description", "properties.", most=LONGEST_DESCRIPTION)
    kept = {key: value for key, value in properties.items() if key not in ("createdOn", "modifiedOn")}
    return {
        "properties": {**kept, "computeType": compute_type, "properties": inner},
        "tags": take_texts(body, "tags"),
        "identity": take_object(body, "identity") or None,
    }


def _read_scale(inner: JsonObject) -> JsonObject:
    where = "properties.properties.scaleSettings."
    scale = take_object(inner, "scaleSettings", "properties.properties.")
    most = take_count(scale, "maxNodeCount", where, default=1)
    least = take_count(scale, "minNodeCount", where, default=0)
    if least > most:
        raise bad_request(f"`{where}minNodeCount` {least} is above `maxNodeCount` {most}.")
    idle = take_text(scale, "nodeIdleTimeBeforeScaleDown", where) or "PT2M"
    if len(idle) < 3 or idle.endswith("T") or not _DURATION.fullmatch(idle):
        raise bad_request(
            f"`{where}nodeIdleTimeBeforeScaleDown` `{idle[:60]}` is not a duration such as PT2M."
        )
    return {"minNodeCount": least, "maxNodeCount": most, "nodeIdleTimeBeforeScaleDown": idle}


def _patch(call: Call) -> Response:
    compute = _require(call)
    change = take_object(take_object(call.body, "properties"), "properties", "properties.")
    inner = compute.body["properties"].get("properties") or {}
    body = {**compute.body, "properties": {**compute.body["properties"], "properties": {**inner, **change}}}
    for key in ("tags", "identity"):
        if key in call.body:
            body[key] = call.body[key]
    stored = put_resource(call.database, KIND, compute.name, {**compute.body, **_read_body(body)})
    return answer(_describe(call, stored), 200, operation_headers(call))


def _delete(call: Call) -> Response:
    """Delete or detach (``underlyingResourceAction``): the same here, where nothing lies under it."""
    compute = _require(call)
    with call.database.transaction():
        delete_resource(call.database, KIND, compute.name)
        if _find_compute(call.workspace, compute.name) is not None:  # the project describes it
            put_resource(call.database, KIND, compute.name, {})
    return Response(status_code=202, headers=operation_headers(call))


def _start_or_stop(call: Call) -> Response:
    compute, action = _require(call), call.action
    kind = compute.body["properties"]["computeType"]
    if kind != "ComputeInstance":
        raise bad_request(f"Only a compute instance can {action}, and {compute.name} is of type {kind}.")
    operation = {"operationName": action.title(), "operationTime": now(), "operationStatus": "Succeeded"}
    body = {**compute.body, "state": _STATES[action], "lastOperation": operation}
    put_resource(call.database, KIND, compute.name, body)
    return Response(status_code=202, headers=operation_headers(call))


def _describe(call: Call, compute: Resource) -> JsonObject:
    properties = compute.body["properties"]
    inner = {**(properties.get("properties") or {}), **_live(properties["computeType"], compute)}
    inner.pop("adminUserPassword", None)
    shown = {
        "description": None,
        "resourceId": None,
        "disableLocalAuth": False,
        **properties,
        "computeLocation": LOCATION,
        "provisioningState": "Succeeded",
        "provisioningErrors": None,
        "createdOn": compute.created,
        "modifiedOn": compute.modified,
        "isAttachedCompute": properties["computeType"] not in ("AmlCompute", "ComputeInstance"),
        "properties": inner,
    }
    return describe_resource(
        call,
        (KIND, compute.name),
        shown,
        (compute.created, compute.modified),
        location=LOCATION,
        tags=compute.body.get("tags") or {},
        identity=compute.body.get("identity"),
    )


def _live(kind: str, compute: Resource) -> JsonObject:
    """What the service adds to a compute's own properties."""
    if kind == "AmlCompute":
        states = ("idle", "running", "preparing", "unusable", "leaving", "preempted")
        return {
            "osType": "Linux",
            "currentNodeCount": 0,
            "targetNodeCount": 0,
            "nodeStateCounts": {f"{state}NodeCount": 0 for state in states},
            "allocationState": "Steady",
            "allocationStateTransitionTime": compute.modified,
            "errors": None,
        }
    if kind == "ComputeInstance":
        created = {
            "operationName": "Create",
            "operationTime": compute.created,
            "operationStatus": "Succeeded",
        }
        return {
            "state": compute.body.get("state", "Running"),
            "applications": [],
            "errors": [],
            "lastOperation": compute.body.get("lastOperation", created),
        }
    return {}


HANDLERS: Handlers = {
    "GET all": _list,
    "GET one": lambda call: _describe(call, _require(call)),
    "PUT one": _put,
    "PATCH one": _patch,
    "DELETE one": _delete,
    **dict.fromkeys(("POST one/start", "POST one/stop", "POST one/restart"), _start_or_stop),
    # The instances of a compute exist only while jobs run.
    "POST one/listnodes": lambda call: _require(call) and {"nodes": []},
    "POST one/listkeys": lambda call: {"computeType": _require(call).body["properties"]["computeType"]},
    **dict.fromkeys(
        ("POST one/enablesso", "POST one/updateidleshutdownsetting", "POST one/customservices"),
        lambda call: _require(call) and {},
    ),
}


KIND = "computes"
# The clusters of the official examples (sdk/python/jobs/configuration.ipynb in Azure/azureml-examples).
USUAL = {"cpu-cluster": ("STANDARD_D2_V2", 4), "gpu-cluster": ("STANDARD_NC4AS_T4_V3", 4)}


def list_computes(workspace: Workspace) -> Iterator[Resource]:
    """All computes, the project's first, one in memory at a time."""
    by_name = {compute.name.lower(): compute for compute in _list_described(workspace)}
    described = use_each(
        "compute",
        by_name.values(),
        lambda compute: get_resource(workspace.database, KIND, compute.name) or compute,
    )
    others = (
        compute for compute in list_resources(workspace.database, KIND) if compute.name.lower() not in by_name
    )
    return (compute for compute in itertools.chain(described, others) if not _is_deleted(compute))


def _find_compute(workspace: Workspace, name: str) -> Resource | None:
    """A compute by its name in any case, as clients made it or as the project describes it."""
    made = get_resource(workspace.database, KIND, name)
    if made is not None:
        return None if _is_deleted(made) else made
    return next(
        (compute for compute in _list_described(workspace) if compute.name.lower() == name.lower()), None
    )


def _is_deleted(resource: Resource) -> bool:
    """Whether a client deleted it; a row stays, because ``worldsize.yml`` may still describe it."""
    return not resource.body


def _is_usual(workspace: Workspace, compute: Resource) -> bool:
    """Whether a compute is only one of :data:`USUAL`: neither a client nor the project describes it."""
    return (
        get_resource(workspace.database, KIND, compute.name) is None
        and compute.name.lower() in USUAL
        and compute.name.lower() not in map(str.lower, _declared(workspace))
    )


def _list_described(workspace: Workspace) -> list[Resource]:
    bodies = _declared(workspace)
    names = {name.lower() for name in bodies}
    bodies |= {
        name: describe_cluster(size, count, "Dedicated")
        for name, (size, count) in USUAL.items()
        if name not in names
    }
    return [Resource(KIND, name, body, CREATED, CREATED) for name, body in bodies.items()]


def describe_cluster(size: str, count: int, tier: str) -> JsonObject:
    """The body of a cluster with ``count`` instances at most."""
    scale = {"minNodeCount": 0, "maxNodeCount": count, "nodeIdleTimeBeforeScaleDown": "PT2M"}
    inner = {"vmSize": size, "vmPriority": tier, "scaleSettings": scale}
    return {"properties": {"computeType": "AmlCompute", "properties": inner}}


def _declared(workspace: Workspace) -> dict[str, JsonObject]:
    """The bodies of the project's clusters; those without a size are left out."""
    clusters = {}
    for compute in project_settings(workspace).computes:
        size = compute.size.value if compute.size is not None else None
        count = compute.max_instances.value if compute.max_instances is not None else None
        low = compute.tier is not None and compute.tier.value == "low_priority"
        if isinstance(size, str):
            many = count if isinstance(count, int) and not isinstance(count, bool) else 1
            clusters[compute.name] = describe_cluster(size, many, "LowPriority" if low else "Dedicated")
    return clusters
