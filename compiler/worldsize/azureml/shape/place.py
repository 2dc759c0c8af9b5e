"""Where the walker stands: a mapping, the shape it is checked by, and the way to it."""

from __future__ import annotations

from dataclasses import dataclass

from worldsize.azureml.shape.catalog import Shape, Sibling
from worldsize.yaml.nodes import Mapping, Scalar
from worldsize.yaml.span import Span


@dataclass(frozen=True, slots=True)
class Place:
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
        """What to point at when something is missing: the mapping's key, at the root its first key."""
        if self.key is not None:
            return self.key.span
        return self.node.entries[0][0].span if self.node.entries else self.node.span

    @property
    def title(self) -> str:
        """How a message names the mapping."""
        return f"`{self.name}`" if self.name is not None else "the file"
