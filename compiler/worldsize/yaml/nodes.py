"""The tree a YAML file becomes: values that still know where they stand.

Three node types only, so that every reader is a three-way ``isinstance``. Aliases share the node
of their anchor: the tree is a graph without cycles, and walking it must be bounded by the caller
(``load`` refuses files whose expansion would be large).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from worldsize.yaml.scalars import PlainValue, resolve
from worldsize.yaml.span import Span


@dataclass(slots=True, eq=False)
class Scalar:
    """A leaf. ``text`` is the content after unquoting and folding; ``value`` what PyYAML would give."""

    span: Span
    text: str
    style: str  # "" plain, "'" or '"' quoted, "|" literal block, ">" folded block
    tag: str | None = None  # an explicit tag such as "!!str", else None

    @property
    def value(self) -> PlainValue:
        """The Python value by YAML 1.1 rules: ``yes`` is True, ``010`` is 8, ``1e-3`` is text."""
        return resolve(self.text, self.style, self.tag)


@dataclass(slots=True, eq=False)
class Sequence:
    """A list of nodes, in flow or block style."""

    span: Span
    items: list[Node]
    flow: bool = False


@dataclass(slots=True, eq=False)
class Mapping:
    """Keys and values in the order written. A repeated key keeps its *last* value, as Azure reads it."""

    span: Span
    entries: list[tuple[Scalar, Node]]
    flow: bool = False
    _index: dict[str, int] | None = field(default=None, repr=False)

    def _positions(self) -> dict[str, int]:
        if self._index is None:
            self._index = {key.text: position for position, (key, _) in enumerate(self.entries)}
        return self._index

    def __contains__(self, key: str) -> bool:
        return key in self._positions()

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions())

    def __len__(self) -> int:
        return len(self._positions())

    def get(self, key: str) -> Node | None:
        """The value node under ``key``, or None."""
        position = self._positions().get(key)
        return None if position is None else self.entries[position][1]

    def key(self, key: str) -> Scalar | None:
        """The node of the key itself: what an "unknown key" diagnostic points at."""
        position = self._positions().get(key)
        return None if position is None else self.entries[position][0]

    def items(self) -> Iterator[tuple[Scalar, Node]]:
        """Key and value nodes, each key once (the last of its repetitions)."""
        return (self.entries[position] for position in self._positions().values())


Node = Scalar | Sequence | Mapping
