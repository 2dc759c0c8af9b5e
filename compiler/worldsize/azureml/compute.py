"""Reads clusters from YAML: Azure ML's compute files, and ``compute:`` of ``worldsize.yml``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from worldsize.azureml import fields
from worldsize.azureml.model import Field
from worldsize.yaml.nodes import Mapping, Node


class Compute(Struct, frozen=True):
    """One cluster or instance; values as written. ``size`` is Azure's name of a VM size."""

    name: str
    path: Path
    size: Field[Any] | None = None
    max_instances: Field[Any] | None = None
    tier: Field[Any] | None = None  # dedicated | low_priority
    declared: bool = False  # described in worldsize.yml


def read_compute(root: Mapping, path: Path) -> Compute | None:
    """Read a compute file; None if it has no name or is not a VM of Azure's catalogue (Kubernetes, Spark)."""
    name, kind = fields.read_text(root, "name"), (fields.read_text(root, "type") or "amlcompute").lower()
    if name is None or kind not in ("amlcompute", "computeinstance"):
        return None
    return Compute(
        name,
        path,
        fields.read_field(root, "size"),
        fields.read_field(root, "max_instances"),
        fields.read_field(root, "tier"),
    )


def read_declared(root: Node | None, path: Path) -> Iterator[Compute]:
    """Read the clusters that ``worldsize.yml`` describes."""
    block = root.get("compute") if isinstance(root, Mapping) else None
    if not isinstance(block, Mapping):
        return
    for key, node in block.items():
        if isinstance(node, Mapping):
            size = fields.read_field(node, "instance_type") or fields.read_field(node, "size")
            most, tier = fields.read_field(node, "max_instances"), fields.read_field(node, "tier")
            yield Compute(key.text, path, size, most, tier, declared=True)
