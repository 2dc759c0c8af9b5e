"""Where the walker stands: a mapping, the shape it is checked by, and the way to it."""

from __future__ import annotations

from msgspec import Struct

from worldsize.azureml.shape.catalog import Shape, Sibling
from worldsize.base.span import Span
from worldsize.yaml.nodes import Mapping, Scalar


class Place(Struct, frozen=True):
    """A mapping under inspection."""

    node: Mapping
    shape: Shape
    name: str | None  # its key in the parent; None at the root
    key: Scalar | None  # the node of that key
    parent: Place | None = None
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
