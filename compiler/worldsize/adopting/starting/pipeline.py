"""The clusters of an Azure ML pipeline that exists: their names, and a VM size that suits its processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worldsize import yaml
from worldsize.adopting.starting.spec import CPU_SIZE
from worldsize.yaml.nodes import Mapping, Node, Scalar, Sequence

# For each number of processes on an instance, a size with as many GPUs that Azure gives to new clusters.
SIZES = {
    1: "Standard_NC16as_T4_v3",
    2: "Standard_NC80adis_H100_v5",
    4: "Standard_NC64as_T4_v3",
    8: "Standard_ND96amsr_A100_v4",
}


def find_clusters(path: Path) -> dict[str, tuple[str, int]]:
    """The clusters that a pipeline names, with a VM size and the most instances that a job of it asks for."""
    document = yaml.load(path)
    found: dict[str, tuple[str, int]] = {}
    if document.root is None:
        return found
    for name, processes, instances in _walk(document.root, None):
        size, most = found.get(name, (CPU_SIZE, 1))
        if processes:
            size = SIZES.get(processes, SIZES[8])
        found[name] = (size, max(most, instances))
    return found


def _walk(node: Node, inherited: str | None) -> Iterator[tuple[str, int, int]]:
    """The cluster, processes of an instance (0 without distribution) and instances of each job."""
    if isinstance(node, Sequence):
        for each in node.items:
            yield from _walk(each, inherited)
    if not isinstance(node, Mapping):
        return
    settings = node.get("settings")
    usual = settings.get("default_compute") if isinstance(settings, Mapping) else None
    inherited = _cluster(usual) or inherited
    named = _cluster(node.get("compute"))
    cluster = named or (inherited if node.get("command") is not None or _is_step(node) else None)
    if cluster is not None:
        yield (
            cluster,
            _processes(node.get("distribution")),
            _number(_get(node, "resources", "instance_count")),
        )
    for entry in node.items():
        yield from _walk(entry[1], named or inherited)


def _is_step(node: Mapping) -> bool:
    return node.get("component") is not None


def _get(node: Mapping, *names: str) -> Any:
    found: Any = node
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _cluster(node: Node | None) -> str | None:
    """The name in ``azureml:NAME``."""
    text = node.text if isinstance(node, Scalar) else ""
    name = text.removeprefix("azureml:")
    return name if name != text and name and not name.startswith("/") and "${{" not in name else None


def _processes(distribution: Node | None) -> int:
    if not isinstance(distribution, Mapping):
        return 0
    return _number(distribution.get("process_count_per_instance"))


def _number(node: Node | None) -> int:
    value = node.value if isinstance(node, Scalar) else None
    return value if isinstance(value, int) and value > 0 else 1
