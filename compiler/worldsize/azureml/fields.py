"""Reads YAML nodes as fields of the model: the plain value and its position."""

from __future__ import annotations

from collections.abc import Mapping as MappingType
from typing import Any

from msgspec import Struct

from worldsize.azureml.model import Component, Field
from worldsize.documents.yaml import to_python
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar


def read_node(node: Node, key: Scalar | None = None) -> Field[Any]:
    """A field for a node and its key, if it has one."""
    return Field(to_python(node), node.span, key.span if key else None, node)


def read_field(mapping: Mapping, key: str) -> Field[Any] | None:
    """The field under a key; None if the key is absent."""
    node = mapping.get(key)
    return None if node is None else read_node(node, mapping.key(key))


def read_fields(mapping: Mapping, *keys: str) -> dict[str, Any]:
    """The fields under several keys, by key, for a class that has fields of these names."""
    return {key: read_field(mapping, key) for key in keys}


def read_environment(mapping: Mapping) -> Field[Any] | None:
    """The environment of a job or component; a parallel one has it under `task`."""
    task = mapping.get("task")
    environment = read_field(mapping, "environment")
    return (
        read_field(task, "environment") if environment is None and isinstance(task, Mapping) else environment
    )


def read_entries(block: Field[Any] | None) -> MappingType[str, Field[Any]]:
    """The entries of a field that is a mapping, each with its place; none for any other field."""
    if block is None:
        return {}
    if isinstance(block.node, Mapping):
        return {key.text: read_node(node, key) for key, node in block.node.items()}
    return block.parts or {}


def read_text(mapping: Mapping, key: str) -> str | None:
    """The value under a key if it is text, else None."""
    node = mapping.get(key)
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


def read_command(component: Component | None) -> str:
    """The command of a component; empty if it has none."""
    command = component.command.value if component is not None and component.command is not None else None
    return command if isinstance(command, str) else ""


def read_mapping(mapping: Mapping, key: str) -> Mapping | None:
    """The value under a key if it is a mapping, else None."""
    node = mapping.get(key)
    return node if isinstance(node, Mapping) else None


class Distribution(Struct, frozen=True):
    """The values as written, neither converted nor filled with defaults."""

    type: Field[Any] | None
    process_count_per_instance: Field[Any] | None = None
    worker_count: Field[Any] | None = None
    parameter_server_count: Field[Any] | None = None

    @property
    def kind(self) -> str | None:
        """``pytorch``, ``mpi``, ``tensorflow``, ``ray`` or another word, in lower case."""
        return self.type.value.lower() if self.type and isinstance(self.type.value, str) else None


def read_distribution(block: Field[Any] | None) -> Distribution | None:
    """Read a ``distribution`` field; None if it is absent or not a mapping."""
    if block is None or not isinstance(block.value, dict):
        return None
    names = ("type", "process_count_per_instance", "worker_count", "parameter_server_count")
    return Distribution(*(read_member(block, name) for name in names))


def read_member(block: Field[Any] | None, name: str) -> Field[Any] | None:
    """Read one entry of a field that is a mapping, with its position if the block has one."""
    if block is None or not isinstance(block.value, dict) or name not in block.value:
        return None
    if isinstance(block.node, Mapping):
        return read_field(block.node, name)
    return block.parts[name] if block.parts is not None else Field(block.value[name])
