"""The JSON Schemas under ``schemas/azureml``, and a mapping with its place in one."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

from worldsize.base.span import Span
from worldsize.documents import shape
from worldsize.documents.shape import Schema, Shape, load_schema
from worldsize.documents.yaml.nodes import Mapping, Scalar


class Sibling(NamedTuple):
    """A shape that a mapping would have with another ``type``."""

    type: str
    shape: Shape


def load_catalog(kind: str) -> Schema:
    """The schema of a kind, for example ``pipeline-job``."""
    return load_schema(f"azureml/{kind}", "azureml/common", "azureml/nodes")


def fits_shape(value: Any, part: Shape) -> bool:
    """Whether a scalar that is not null has a shape that is not a union."""
    if isinstance(value, str) and "pattern" in part:
        value = value.removesuffix("\n")  # before which `$` of the SDK, which is Python's, matches too
    return shape.fits_shape(value, part)


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
        names = [key for key in self.node if key != "$schema"]
        key = self.node.key("type") or self.node.key(names[0] if names else "$schema")
        return key.span if key is not None else self.node.span

    @property
    def title(self) -> str:
        """How a message names the mapping."""
        return f"`{self.name}`" if self.name is not None else "the file"
