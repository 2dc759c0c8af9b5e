"""Finds the YAML node of a path in plain values, such as ``("steps", "train", "scale")``."""

from __future__ import annotations

from collections.abc import Sequence as Steps

from msgspec import Struct

from worldsize.base.span import Span
from worldsize.base.wording import shorten
from worldsize.documents.yaml.nodes import Mapping, Node, Scalar, Sequence

Path = tuple[str | int, ...]


class NodeLocation(Struct, frozen=True):
    """A value in the tree, and its key (None at the top and in lists)."""

    path: Path
    node: Node
    key: Scalar | None
    document: str = "the spec"  # what the top of the tree is called

    @property
    def value_span(self) -> Span:
        """The text of a leaf; for a mapping or list its key, because a caret under a block helps little."""
        if isinstance(self.node, Scalar) and self.node.span != _empty(self.node.span):
            return self.node.span
        return self.name_span

    @property
    def name_span(self) -> Span:
        """The key, or the start of the value if there is no key."""
        if self.key is not None:
            return self.key.span
        first = self.node.entries[0][0].span if isinstance(self.node, Mapping) and self.node.entries else None
        return first if first is not None else self.node.span

    @property
    def title(self) -> str:
        """The value as the subject of a sentence."""
        return f"`{self.name}`" if self.path else self.document

    @property
    def name(self) -> str:
        """The last key of the path, with the index of a list item: ``hours[1]``."""
        in_list = bool(self.path) and isinstance(self.path[-1], int)
        return format_path(self.path[-2:] if in_list else self.path[-1:])


def locate(root: Node, path: Steps[str | int], document: str = "the spec") -> NodeLocation:
    """Follow a path; if it leads nowhere, return the last existing node on it."""
    node, key, walked = root, None, 0
    for part in path:
        following = _child(node, part)
        if following is None:
            break
        child, child_key = following
        node, key, walked = child, child_key or key, walked + 1
    return NodeLocation(tuple(path[:walked]), node, key, document)


def format_path(path: Path) -> str:
    """A path as messages write it: ``steps.train.scale``, ``hours[1]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(part, 40)}"
    return text.removeprefix(".")


def _child(node: Node, part: str | int) -> tuple[Node, Scalar | None] | None:
    if isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
        return node.items[part], None
    if isinstance(node, Mapping) and isinstance(part, str):
        value = node.get(part)
        return None if value is None else (value, node.key(part))
    return None


def _empty(span: Span) -> Span:
    return Span(span.path, span.line, span.column, span.line, span.column)
