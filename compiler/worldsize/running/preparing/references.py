"""What the files of a pipeline name that lies elsewhere: in a workspace, a registry or on the web."""

from __future__ import annotations

from collections.abc import Iterable

from worldsize.azureml.references import classify
from worldsize.yaml import Mapping, Scalar
from worldsize.yaml.nodes import Node

PASSED_OVER = frozenset({"$schema", "compute", "default_compute"})  # keys whose value is no asset


def elsewhere(roots: Iterable[Node | None]) -> set[str]:
    """Every text that refers to something which is not here, each node looked at once."""
    waiting, met, found = [root for root in roots if root is not None], set[int](), set[str]()
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, Scalar):
            found |= {node.text} if classify(node.text) != "local" else set()
        elif isinstance(node, Mapping):
            waiting += [value for key, value in node.items() if key.text not in PASSED_OVER]
        else:
            waiting += node.items
    return found
