"""Reads YAML nodes as fields of the model: the plain value and its position."""

from __future__ import annotations

from typing import Any

from worldsize.azureml.model import Field
from worldsize.yaml import to_python
from worldsize.yaml.nodes import Mapping, Node, Scalar


def read_node(node: Node, key: Scalar | None = None) -> Field[Any]:
    """A field for a node and its key, if it has one."""
    return Field(to_python(node), node.span, key.span if key else None, node)


def read_field(mapping: Mapping, key: str) -> Field[Any] | None:
    """The field under a key; None if the key is absent."""
    node = mapping.get(key)
    return None if node is None else read_node(node, mapping.key(key))


def read_text(mapping: Mapping, key: str) -> str | None:
    """The value under a key if it is text, else None."""
    node = mapping.get(key)
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


def read_mapping(mapping: Mapping, key: str) -> Mapping | None:
    """The value under a key if it is a mapping, else None."""
    node = mapping.get(key)
    return node if isinstance(node, Mapping) else None
