"""The clusters, VM sizes and quotas of a workspace, and the lines of ``worldsize.yml`` that say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from worldsize.base.wording import drop_fraction
from worldsize.checking.fixing import Setting, SettingError, set_values
from worldsize.documents import yaml
from worldsize.documents.yaml.nodes import insert_entry
from worldsize.documents.yaml.scalars import classify_scalar
from worldsize.remote.errors import RemoteError
from worldsize.remote.rest import Rest

_NAME = re.compile(r"\w[\w-]*", re.ASCII)
TIERS = {"lowpriority": "low_priority", "dedicated": "dedicated"}


class RemoteCluster(Struct, frozen=True):
    """A cluster of the workspace, in the words of ``worldsize.yml``."""

    name: str
    instance_type: str
    max_instances: int
    tier: str

    @property
    def settings(self) -> dict[str, str | float]:
        """What ``worldsize.yml`` says of it. A cluster that is scaled to nothing has no limit to check."""
        limit = {"max_instances": self.max_instances} if self.max_instances > 0 else {}
        return {"instance_type": self.instance_type, **limit, "tier": self.tier}


class RemoteSize(Struct, frozen=True):
    """A VM size of the workspace's location, as Azure describes it."""

    name: str
    gpus: int
    vcpus: int | None = None
    memory_gib: float | None = None

    @property
    def settings(self) -> dict[str, str | float]:
        """What ``worldsize.yml`` says of it."""
        amounts = {"gpus": self.gpus, "vcpus": self.vcpus, "memory_gib": self.memory_gib}
        return {key: drop_fraction(value) for key, value in amounts.items() if value is not None}


class Quota(Struct, frozen=True):
    """The cores of a VM family, or another limited quantity."""

    name: str
    used: int
    limit: int


def read_clusters(rest: Rest, sizes: Iterable[str]) -> list[RemoteCluster]:
    """The workspace's clusters; attached computes and single instances are left out.

    ``sizes`` are the names of VM sizes as Azure lists them, which its clusters have in any case.
    """
    names = {size.lower(): size for size in sizes}
    clusters = []
    for document in rest.list("/computes"):
        outer = document.get("properties") or {}
        inner = outer.get("properties") or {}
        size = inner.get("vmSize")
        if str(outer.get("computeType")).lower() != "amlcompute" or not isinstance(size, str):
            continue
        scale = inner.get("scaleSettings") or {}
        tier = TIERS.get(str(inner.get("vmPriority")).lower(), "dedicated")
        shown = names.get(size.lower(), size)
        most = int(scale.get("maxNodeCount") or 0)
        clusters.append(RemoteCluster(str(document["name"]), shown, most, tier))
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


def read_sizes(rest: Rest) -> list[RemoteSize]:
    """The location's VM sizes whose GPUs Azure tells."""
    sizes = {}
    for listed in _read_location(rest, "vmSizes"):
        name, gpus = listed.get("name"), listed.get("gpus")
        if not isinstance(name, str) or not isinstance(gpus, int) or _NAME.fullmatch(name) is None:
            continue
        if gpus >= 0:
            vcpus, memory = (_read_amount(listed, key) for key in ("vCPUs", "memoryGB"))
            sizes[name.lower()] = RemoteSize(name, gpus, None if vcpus is None else int(vcpus), memory)
    return sorted(sizes.values(), key=lambda size: size.name)


def _read_amount(listed: Mapping[str, Any], key: str) -> float | None:
    value = listed.get(key)
    return value if isinstance(value, int | float) and value > 0 else None


def choose_sizes(sizes: Sequence[RemoteSize], clusters: Sequence[RemoteCluster]) -> list[RemoteSize]:
    """The sizes to learn: all with GPUs, and of the hundreds without those that a cluster has."""
    used = {cluster.instance_type for cluster in clusters}
    return [size for size in sizes if size.gpus or size.name in used]


def _read_location(rest: Rest, kind: str) -> Sequence[Mapping[str, Any]]:
    from azure.core.exceptions import HttpResponseError

    try:
        return rest.of_location(kind).get("value") or []
    except HttpResponseError as error:
        if error.status_code in (403, 404):  # a role on the workspace alone does not show the subscription
            return []
        raise


def write_clusters(path: str, text: str, clusters: Sequence[RemoteCluster]) -> str:
    """The text of ``worldsize.yml`` with the clusters; comments and everything else stay, other clusters too.

    Raises:
        RemoteError: The file is not YAML that can be edited.
    """
    for cluster in clusters:
        text = _write_entry(path, text, "compute", cluster.name, cluster.settings)
    return text


def write_sizes(path: str, text: str, sizes: Sequence[RemoteSize]) -> str:
    """The text of ``worldsize.yml`` with the VM sizes, as :func:`write_clusters` writes clusters."""
    for size in sizes:
        root = _read_root(path, text)
        block = root.get("vm_sizes") if root is not None else None
        keys = [key.text for key, _ in block.items()] if isinstance(block, yaml.Mapping) else []
        name = next((key for key in keys if key.lower() == size.name.lower()), size.name)
        text = _write_entry(path, text, "vm_sizes", name, size.settings)
    return text


def _read_root(path: str, text: str) -> yaml.Mapping | None:
    document = yaml.load(path, text)
    wrong = [problem for problem in document.problems if problem.slug != "yaml-empty"]
    if wrong or not isinstance(document.root, yaml.Mapping | None):
        raise RemoteError(f"`{path}` has errors", f"`worldsize check {path}` lists them")
    return document.root


def _write_entry(path: str, text: str, key: str, name: str, settings: Mapping[str, str | float]) -> str:
    """The text with an entry of the mapping below ``key``, which is added if it is missing."""
    line = ", ".join(f"{word}: {value}" for word, value in settings.items())
    entry = f"{_quote(name)}: {{{line}}}"
    root = _read_root(path, text)
    block = root.get(key) if root is not None else None
    if block is None:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{key}:\n  {entry}\n"
    if not isinstance(block, yaml.Mapping):
        raise RemoteError(f"`{key}` of `{path}` is not a mapping", "remove it, and run the command again")
    existing = block.get(name)
    if existing is None:
        return insert_entry(text, block, entry)
    if not isinstance(existing, yaml.Mapping):
        return text[: existing.start] + f"{{{line}}}" + text[existing.end :]
    changed = [
        Setting((key, name, word), value)
        for word, value in settings.items()
        if word in existing or (word, value) != ("tier", "dedicated")  # the default is not added
    ]
    try:
        return set_values(yaml.load(path, text), changed)
    except SettingError as error:
        raise RemoteError(f"`{path}` cannot be edited: {error}", "write the value by hand") from None


def _quote(name: str) -> str:
    """A name as a key: one that YAML reads as a number or boolean is in quotes."""
    return name if classify_scalar(name) == "str" else f'"{name}"'
