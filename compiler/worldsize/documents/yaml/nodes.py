"""The tree of a YAML file: values with their positions.

There are three node types, so that every reader is a three-way ``isinstance``. Aliases share the node of
their anchor: the tree is a graph without cycles, and ``load`` refuses files whose expansion is large or deep,
so that plain recursion is safe.

Nodes keep offsets; line and column are computed on demand, because most nodes are never reported.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct

from worldsize.base.patterns import compile_later
from worldsize.base.source import Source
from worldsize.base.span import Span
from worldsize.documents.yaml.scalars import PlainValue, resolve_scalar


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
        offsets = locate_range(runs, start, end)
        return self.span if offsets is None else self.source.span(*offsets)

    def _trace(self) -> Segments:
        """The runs that lead from ``text`` back to the source; one run where nothing is escaped or folded."""
        first = self.start + (self.style in ("'", '"'))
        length = len(self.text)
        plain = self.style not in ("|", ">") and self.end - self.start == length + 2 * (first - self.start)
        if plain and length and self.source.text.startswith(self.text, first):
            return [(0, first, length, length)]
        return trace_segments(self.source.text, self.start, self.end, self.text, self.style)


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


def find_node(node: Node | None, *keys: str) -> Node | None:
    """The node under keys of mappings, one inside the other; None if one is missing."""
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def list_items(node: Node | None) -> list[Node]:
    """The items of a list; empty for another node."""
    return node.items if isinstance(node, Sequence) else []


def list_entries(node: Node | None) -> list[tuple[Scalar, Node]]:
    """The keys and values of a mapping, each key once; empty for another node."""
    return list(node.items()) if isinstance(node, Mapping) else []


def list_scalars(root: Node | None) -> Iterator[Scalar]:
    """Every key and value below a node once, in its order, however often aliases repeat it."""
    waiting, met = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in met:
            continue
        met.add(id(node))
        if isinstance(node, Scalar):
            yield node
        parts = [part for entry in node.entries for part in entry] if isinstance(node, Mapping) else []
        waiting += reversed(parts or list_items(node))


# A value differs from its source by quotes, escapes, indentation and folded lines. The way back is a list of
# runs (offset in value, offset in source, length in value, length in source): where the lengths are equal the
# two advance together, and every other run, such as an escape or a fold, is one indivisible piece.
Run = tuple[int, int, int, int]
Segments = list[Run]

_BREAK = r"(?:\r\n|[\r\n\x85\u2028\u2029])"
_FOLD = rf"(?P<fold>[ \t]*{_BREAK}(?:[ \t]*{_BREAK})*[ \t]*)"
_DOUBLE = (
    rf"(?P<drop>\\{_BREAK}[ \t]*)|(?P<escape>\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|U[0-9a-fA-F]{{8}}|.))|"
    rf"{_FOLD}|(?P<run>[^\\\r\n\x85\u2028\u2029 \t]+|[ \t]+)"
)
_SINGLE = rf"(?P<drop>(?!))|(?P<escape>'')|{_FOLD}|(?P<run>[^'\r\n\x85\u2028\u2029 \t]+|[ \t]+)"
_PLAIN = rf"(?P<drop>(?!))|(?P<escape>(?!))|{_FOLD}|(?P<run>[^\r\n\x85\u2028\u2029 \t]+|[ \t]+)"
_BREAKS = compile_later(_BREAK)
_HEADER = compile_later(rf"[|>][-+0-9]*[ \t]*(?:#[^\r\n]*)?{_BREAK}")


def trace_segments(source: str, start: int, end: int, value: str, style: str) -> Segments:
    """The runs that lead from ``value`` back to ``source[start:end]``; empty when they cannot be found."""
    if style in ("|", ">"):
        return _block(source, start, end, value)
    inner = (start + 1, end - 1) if style else (start, end)
    if source[inner[0] : inner[1]] == value:
        return [(0, inner[0], len(value), len(value))] if value else []
    pattern = re.compile({'"': _DOUBLE, "'": _SINGLE}.get(style, _PLAIN))
    return _flow(source, *inner, value, pattern)


def locate_range(segments: Segments, start: int, end: int) -> tuple[int, int] | None:
    """The source range of the value range ``[start, end)``, or None if it cannot be traced."""
    if not segments or start > end:
        return None
    last = segments[-1]
    if start < 0 or end > last[0] + last[2]:
        return None
    begin = _edge(segments, start, after=False)
    return begin, (begin if end == start else _edge(segments, end - 1, after=True))


def _edge(segments: Segments, offset: int, *, after: bool) -> int:
    position = bisect_right(segments, offset, key=lambda run: run[0]) - 1
    value_start, source_start, value_length, source_length = segments[position]
    inside = offset - value_start
    if inside < value_length and value_length == source_length:
        return source_start + inside + after
    if inside >= value_length:  # a separator between two runs, or the end of the value
        return source_start + source_length
    return source_start + (source_length if after else 0)


def _flow(source: str, start: int, end: int, value: str, pattern: re.Pattern[str]) -> Segments:
    """Plain and quoted text: escapes are single pieces; n line ends fold to a space or n-1 breaks."""
    runs: Segments = []
    position, offset = start, 0
    while position < end:
        match = pattern.match(source, position, end)
        if match is None:
            return []
        length = match.end() - position
        produced = _produced(match, length)
        if produced:
            _append(runs, (offset, position, produced, length))
        offset += produced
        position = match.end()
    return runs if offset == len(value) else []


def _produced(match: re.Match[str], length: int) -> int:
    """How many characters of the value one piece of source makes."""
    kind = match.lastgroup
    if kind == "run":
        return length
    if kind == "fold":
        return max(1, len(_BREAKS.findall(match.group())) - 1)
    return 1 if kind == "escape" else 0


def _append(runs: Segments, run: Run) -> None:
    """Add a run, joined to the one before where both are plain and adjacent."""
    offset, position, produced, length = run
    if runs and produced == length:
        before = runs[-1]
        if before[2] == before[3] and before[0] + before[2] == offset and before[1] + before[3] == position:
            runs[-1] = (before[0], before[1], before[2] + produced, before[3] + length)
            return
    runs.append(run)


def _block(source: str, start: int, end: int, value: str) -> Segments:
    """Literal and folded blocks: find the content of each source line in the value, in order."""
    header = _HEADER.match(source, start)
    if header is None:
        return []
    lines = _lines(source, header.end(), end)
    indent = _indent(source, lines, value)
    runs: Segments = []
    offset = 0
    for begin, stop in lines:
        content = source[min(begin + indent, stop) : stop]
        if not content:
            continue
        position = _skip_breaks(value, offset, content)
        if position is None:
            return []
        runs.append((position, begin + indent, len(content), len(content)))
        offset = position + len(content)
    if value[offset:].strip("\n\u2028\u2029 "):
        return []
    return runs


def _lines(source: str, start: int, end: int) -> list[tuple[int, int]]:
    lines = []
    for match in _BREAKS.finditer(source, start, end):
        lines.append((start, match.start()))
        start = match.end()
    lines.append((start, end))
    return lines


def _indent(source: str, lines: list[tuple[int, int]], value: str) -> int:
    """Columns that YAML removed from each line: the first line's blanks less those that the value kept."""
    kept = value.lstrip("\n\u2028\u2029")
    kept_blanks = len(kept) - len(kept.lstrip(" "))
    for begin, stop in lines:
        blanks = stop - begin - len(source[begin:stop].lstrip(" "))
        if begin + blanks < stop:
            return max(0, blanks - kept_blanks)
    return 0


def _skip_breaks(value: str, offset: int, content: str) -> int | None:
    while not value.startswith(content, offset):
        if offset >= len(value) or value[offset] not in "\n \u2028\u2029":
            return None
        offset += 1
    return offset


def lies_in(node: Node, outer: Node) -> bool:
    """Whether a node is written inside another, not where an alias leads."""
    return outer.start <= node.start and node.end <= outer.end


def insert_entry(text: str, mapping: Mapping, entry: str) -> str:
    """The text with an entry before the first of a mapping.

    Args:
        text: The text of the whole file.
        mapping: A mapping of it, in block or flow style; one in block style is not empty.
        entry: The key and its value on one line, such as ``epochs: 3``.
    """
    starts = [key.start for key, _ in mapping.entries if mapping.start <= key.start < mapping.end]
    if mapping.flow:
        at = mapping.start + 1
        return f"{text[:at]}{entry}{', ' if mapping.entries else ''}{text[at:]}"
    at = min(starts)
    indent = at - (text.rfind("\n", 0, at) + 1)
    return f"{text[:at]}{entry}\n{' ' * indent}{text[at:]}"
