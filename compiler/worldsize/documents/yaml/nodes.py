"""The tree of a YAML file: values with their positions.

There are three node types, so that every reader is a three-way ``isinstance``. Aliases share the node of
their anchor: the tree is a graph without cycles, and ``load`` refuses files whose expansion is large or deep,
so that plain recursion is safe.

Nodes keep offsets; line and column are computed on demand, because most nodes are never reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.documents.yaml.scalars import PlainValue, resolve_scalar

if TYPE_CHECKING:
    from worldsize.documents.yaml.segments import Segments


class Scalar(Struct, eq=False):
    """A leaf. ``text`` is the content after unquoting and folding, ``value`` what PyYAML returns."""

    source: Source
    start: int
    end: int
    text: str
    style: str = ""  # "" plain, "'" or '"' quoted, "|" literal block, ">" folded block
    tag: str | None = None  # an explicit tag such as "!!str", else None
    _segments: Segments | None = None
    _value: PlainValue = None  # computed on demand

    @property
    def span(self) -> Span:
        """The position of the text with its quotes or block header, without anchor and tag."""
        return self.source.span(self.start, self.end)

    @property
    def value(self) -> PlainValue:
        """The Python value by YAML 1.1 rules: ``yes`` is True, ``010`` is 8, ``1e-3`` is text."""
        if self._value is None:  # not computed yet, or null, which is quick to compute again
            self._value = resolve_scalar(self.text, self.style, self.tag)
        return self._value

    def subspan(self, start: int, end: int) -> Span:
        """The span of ``text[start:end]`` in the source, through quotes, escapes and folding.

        Args:
            start: Offset of the first character in ``text``.
            end: Offset after the last one; equal to ``start`` for a place between two characters.

        Returns:
            The exact span, or the whole scalar's where the text cannot be traced back.
        """
        if self._segments is None:
            self._segments = self._trace()
        runs = self._segments
        if len(runs) == 1 and runs[0][0] == 0 <= start <= end <= runs[0][2] == runs[0][3]:
            return self.source.span(runs[0][1] + start, runs[0][1] + end)
        from worldsize.documents.yaml import segments  # most texts are written as they are read

        offsets = segments.locate_range(runs, start, end)
        return self.span if offsets is None else self.source.span(*offsets)

    def _trace(self) -> Segments:
        """The runs that lead from ``text`` back to the source; one run where nothing is escaped or folded."""
        first = self.start + (self.style in ("'", '"'))
        length = len(self.text)
        plain = self.style not in ("|", ">") and self.end - self.start == length + 2 * (first - self.start)
        if plain and length and self.source.text.startswith(self.text, first):
            return [(0, first, length, length)]
        from worldsize.documents.yaml import segments

        return segments.trace_segments(self.source.text, self.start, self.end, self.text, self.style)


class Sequence(Struct, eq=False):
    """A list of nodes, in flow or block style."""

    source: Source
    start: int
    end: int
    items: list[Node]
    flow: bool = False

    @property
    def span(self) -> Span:
        """From the first item's dash (or the bracket) to the end of the last item."""
        return self.source.span(self.start, self.end)


class Mapping(Struct, eq=False):
    """Keys and values in the order of the file. A repeated key keeps its *last* value, as in Azure ML.

    Entries of a merge key ``<<`` come first, and the mapping's own entries override them.
    """

    source: Source
    start: int
    end: int
    entries: list[tuple[Scalar, Node]]
    flow: bool = False
    _index: dict[str, int] | None = None

    @property
    def span(self) -> Span:
        """From the first key (or the brace) to the end of the last value."""
        return self.source.span(self.start, self.end)

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

    def __bool__(self) -> bool:
        """Always True, so that ``node or default`` tests for absence, not for emptiness."""
        return True

    def get(self, key: str) -> Node | None:
        """The value node under ``key``, or None."""
        position = self._positions().get(key)
        return None if position is None else self.entries[position][1]

    def key(self, key: str) -> Scalar | None:
        """The node of the key itself, which an "unknown key" diagnostic points at."""
        position = self._positions().get(key)
        return None if position is None else self.entries[position][0]

    def items(self) -> Iterator[tuple[Scalar, Node]]:
        """Key and value nodes, each key once (the last of its repetitions)."""
        return (self.entries[position] for position in self._positions().values())


Node = Scalar | Sequence | Mapping
