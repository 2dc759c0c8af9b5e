"""The clusters, VM sizes and quotas of a workspace, and the lines of ``worldsize.yml`` that say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worldsize import yaml
from worldsize.facts import vm_sizes
from worldsize.remote.errors import RemoteError
from worldsize.remote.rest import Rest
from worldsize.yaml.edit import insert_entry

TIERS = {"lowpriority": "low_priority", "dedicated": "dedicated"}


@dataclass(frozen=True, slots=True)
class RemoteCluster:
    """A cluster of the workspace, in the words of ``worldsize.yml``."""

    name: str
    instance_type: str
    max_instances: int
    tier: str

    @property
    def settings(self) -> dict[str, str | int]:
        """What ``worldsize.yml`` says of it. A cluster that is scaled to nothing has no limit to check."""
        limit = {"max_instances": self.max_instances} if self.max_instances > 0 else {}
        return {"instance_type": self.instance_type, **limit, "tier": self.tier}


@dataclass(frozen=True, slots=True)
class Quota:
    """The cores of a VM family, or another limited quantity."""

    name: str
    used: int
    limit: int


def read_clusters(rest: Rest) -> list[RemoteCluster]:
    """The workspace's clusters; attached computes and single instances are left out."""
    clusters = []
    for document in rest.list("/computes"):
        outer = document.get("properties") or {}
        inner = outer.get("properties") or {}
        size = inner.get("vmSize")
        if str(outer.get("computeType")).lower() != "amlcompute" or not isinstance(size, str):
            continue
        known = vm_sizes.lookup(size)
        scale = inner.get("scaleSettings") or {}
        tier = TIERS.get(str(inner.get("vmPriority")).lower(), "dedicated")
        clusters.append(
            RemoteCluster(
                str(document["name"]),
                known.name if known else size,
                int(scale.get("maxNodeCount") or 0),
                tier,
            )
        )
    return sorted(clusters, key=lambda cluster: cluster.name)


def read_quotas(rest: Rest) -> list[Quota]:
    """The quotas of the workspace's location that are in use or above zero."""
    quotas = []
    for usage in _read_location(rest, "usages"):
        name, limit, used = usage.get("name") or {}, usage.get("limit"), usage.get("currentValue")
        if isinstance(limit, int) and isinstance(used, int) and (limit or used):
            text = name.get("localizedValue") or name.get("value") or usage.get("id") or ""
            quotas.append(Quota(str(text), used, limit))
    return sorted(quotas, key=lambda quota: quota.name)


def read_unknown_sizes(rest: Rest) -> list[Mapping[str, Any]]:
    """The location's VM sizes with GPUs that Worldsize's catalogue does not have."""
    sizes = _read_location(rest, "vmSizes")
    return [size for size in sizes if size.get("gpus") and vm_sizes.lookup(str(size.get("name"))) is None]


def _read_location(rest: Rest, kind: str) -> Sequence[Mapping[str, Any]]:
    from azure.core.exceptions import HttpResponseError

    try:
        listed: Sequence[Mapping[str, Any]] = rest.of_location(kind).get("value") or []
    except HttpResponseError as error:
        if error.status_code in (403, 404):  # a role on the workspace alone does not show the subscription
            return []
        raise
    return listed


def write_clusters(path: str, text: str, clusters: Sequence[RemoteCluster]) -> str:
    """The text of ``worldsize.yml`` with the clusters; comments and everything else stay.

    Args:
        path: The file, for messages.
        text: Its text now; empty if there is no file.
        clusters: What to write. Clusters of the file that are not among them are kept.

    Raises:
        RemoteError: The file is not YAML that can be edited.
    """
    for cluster in clusters:
        document = yaml.load(path, text)
        wrong = [problem for problem in document.problems if problem.slug != "yaml-empty"]
        if wrong or not isinstance(document.root, yaml.Mapping | None):
            raise RemoteError(f"`{path}` has errors", f"`worldsize check {path}` lists them")
        text = _write_cluster(path, text, document.root, cluster)
    return text


def _write_cluster(path: str, text: str, root: yaml.Mapping | None, cluster: RemoteCluster) -> str:
    line = ", ".join(f"{key}: {value}" for key, value in cluster.settings.items())
    entry = f"{_quote(cluster.name)}: {{{line}}}"
    block = root.get("compute") if root is not None else None
    if block is None:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}compute:\n  {entry}\n"
    if not isinstance(block, yaml.Mapping):
        raise RemoteError(f"`compute` of `{path}` is not a mapping", "remove it, and run the command again")
    known = block.get(cluster.name)
    if known is None:
        return insert_entry(text, block, entry)
    if not isinstance(known, yaml.Mapping):
        return text[: known.start] + f"{{{line}}}" + text[known.end :]
    for key, value in cluster.settings.items():
        text = _write_setting(path, text, cluster.name, key, value)
    return text


def _write_setting(path: str, text: str, name: str, key: str, value: str | int) -> str:
    """The text with one property of a cluster that it describes already."""
    root = yaml.load(path, text).root
    block = root.get("compute") if isinstance(root, yaml.Mapping) else None
    cluster = block.get(name) if isinstance(block, yaml.Mapping) else None
    assert isinstance(cluster, yaml.Mapping)
    old = cluster.get(key)
    if old is not None:
        return text[: old.start] + str(value) + text[old.end :]
    if key == "tier" and value == "dedicated":  # the default is not added
        return text
    return insert_entry(text, cluster, f"{key}: {value}")


def _quote(name: str) -> str:
    """A name as a key: one that YAML reads as a number or boolean is in quotes."""
    from worldsize.yaml.scalars import classify_scalar

    return name if classify_scalar(name) == "str" else f'"{name}"'
