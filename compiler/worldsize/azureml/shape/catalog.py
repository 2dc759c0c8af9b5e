"""The JSON Schemas under ``schemas/azureml``, read when first needed and looked up by name.

A definition's name is the same in every file, so a reference is resolved by its last part alone.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

from worldsize.base import resources
from worldsize.base.span import Span
from worldsize.documents.yaml.nodes import Mapping, Scalar

Shape = dict[str, Any]


class Sibling(NamedTuple):
    """A shape that a mapping would have with another ``type``."""

    type: str
    shape: Shape


# What is not in a kind's own file, nearest first.
_SHARED = ("common", "nodes")


class Catalog:
    """One kind's shape and the definitions it leads to."""

    def __init__(self, kind: str) -> None:
        self.root = _read(kind)
        self._own: Shape = self.root.get("$defs", {})
        self._parts: dict[int, list[Shape]] = {}
        self.siblings: dict[int, tuple[Sibling, ...]] = {}  # of each union met so far, by its identity

    def resolve(self, shape: Shape) -> Shape:
        """``shape``, or what its ``$ref`` stands for."""
        reference = shape.get("$ref")
        return shape if reference is None else self._definition(reference.rpartition("/")[2])

    def alternatives(self, shape: Shape) -> list[Shape]:
        """The resolved shapes of which a value must have one."""
        parts = self._parts.get(id(shape))
        if parts is None:
            whole = self.resolve(shape)
            parts = [self.resolve(part) for part in whole.get("anyOf", [whole])]
            self._parts[id(shape)] = parts
        return parts

    def branches(self, shape: Shape) -> list[Shape]:
        """The mappings among ``shape``'s alternatives, unions of mappings taken apart."""
        mappings = []
        for part in self.alternatives(shape):
            if "oneOf" in part:
                mappings += [leaf for branch in part["oneOf"] for leaf in self.branches(branch)]
            elif part.get("type") == "object":
                mappings.append(part)
        return mappings

    def _definition(self, name: str) -> Shape:
        definition: Shape | None = self._own.get(name)
        for file in _SHARED:
            if definition is not None:
                return definition
            definition = _read(file)["$defs"].get(name)
        if definition is None:
            raise KeyError(name)
        return definition


@cache
def _read(name: str) -> Shape:
    path = resources.schemas() / "azureml" / f"{name}.schema.json"
    document: Shape = json.loads(path.read_bytes())
    return document


@cache
def load_catalog(kind: str) -> Catalog:
    """The catalogue of ``kind``, for example ``pipeline-job``."""
    return Catalog(kind)


class MappingContext(Struct, frozen=True):
    """A mapping under inspection."""

    node: Mapping
    shape: Shape
    name: str | None  # its key in the parent; None at the root
    key: Scalar | None  # the node of that key
    parent: MappingContext | None = None
    type: str | None = None  # the text that selected ``shape`` among ``siblings``
    siblings: tuple[Sibling, ...] = ()

    @property
    def anchor(self) -> Span:
        """What to point at when something is missing: the mapping's key; at the root `type`, or the first."""
        if self.key is not None:
            return self.key.span
        own = [key for key in self.node if key != "$schema"]
        key = self.node.key("type") or self.node.key(own[0] if own else "$schema")
        return key.span if key is not None else self.node.span

    @property
    def title(self) -> str:
        """How a message names the mapping."""
        return f"`{self.name}`" if self.name is not None else "the file"
