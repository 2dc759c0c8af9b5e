"""The computes of a workspace: those of ``worldsize.yml``, two usual ones, and what clients make."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from worldsize.serving.control.document import JsonObject
from worldsize.serving.control.project import project_settings
from worldsize.serving.control.resources import Resource, get_resource, list_resources
from worldsize.serving.database import use_each
from worldsize.serving.workspace import Workspace

KIND = "computes"
# The clusters of the official examples (sdk/python/jobs/configuration.ipynb in Azure/azureml-examples).
USUAL = {"cpu-cluster": ("STANDARD_D2_V2", 4), "gpu-cluster": ("STANDARD_NC4AS_T4_V3", 4)}
_CREATED = "2026-01-01T00:00:00.000000Z"  # of the computes that nobody made


def list_computes(workspace: Workspace) -> Iterator[Resource]:
    """All computes, the project's first, one in memory at a time."""
    given = {each.name.lower(): each for each in _given(workspace)}
    described = use_each(
        "compute", given.values(), lambda each: get_resource(workspace.database, KIND, each.name) or each
    )
    others = (each for each in list_resources(workspace.database, KIND) if each.name.lower() not in given)
    return (each for each in itertools.chain(described, others) if not is_deleted(each))


def find_compute(workspace: Workspace, name: str) -> Resource | None:
    """A compute by its name in any case, as clients made it or as the project describes it."""
    made = get_resource(workspace.database, KIND, name)
    if made is not None:
        return None if is_deleted(made) else made
    return next((each for each in _given(workspace) if each.name.lower() == name.lower()), None)


def is_deleted(resource: Resource) -> bool:
    """Whether a client deleted it; a row stays, because ``worldsize.yml`` may still describe it."""
    return not resource.body


def _given(workspace: Workspace) -> list[Resource]:
    declared = {name.lower(): (name, *values) for name, values in _declared(workspace).items()}
    usual = {name: (name, *values, "Dedicated") for name, values in USUAL.items() if name not in declared}
    return [
        Resource(KIND, name, describe_cluster(size, count, tier), {}, _CREATED, _CREATED)
        for name, size, count, tier in [*declared.values(), *usual.values()]
    ]


def describe_cluster(size: str, count: int, tier: str) -> JsonObject:
    """The body of a cluster with ``count`` instances at most."""
    scale = {"minNodeCount": 0, "maxNodeCount": count, "nodeIdleTimeBeforeScaleDown": "PT2M"}
    inner = {"vmSize": size, "vmPriority": tier, "scaleSettings": scale}
    return {"properties": {"computeType": "AmlCompute", "properties": inner}}


def _declared(workspace: Workspace) -> dict[str, tuple[str, int, str]]:
    """Size, count and tier of the project's clusters; those without a size are left out."""
    clusters = {}
    for compute in project_settings(workspace).computes:
        size = compute.size.value if compute.size is not None else None
        count = compute.max_instances.value if compute.max_instances is not None else None
        low = compute.tier is not None and compute.tier.value == "low_priority"
        if isinstance(size, str):
            many = count if isinstance(count, int) and not isinstance(count, bool) else 1
            clusters[compute.name] = (size, many, "LowPriority" if low else "Dedicated")
    return clusters
