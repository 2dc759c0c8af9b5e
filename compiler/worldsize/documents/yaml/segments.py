"""Maps an offset in a scalar's value back to the offset in the file.

A value differs from its source by quotes, escapes, indentation and folded lines. The map is a list
of runs ``(offset in value, offset in source, length in value, length in source)``; inside a run of
equal lengths the two advance together, other runs (an escape, a fold) are one indivisible piece.
"""

from __future__ import annotations

import re
from bisect import bisect_right

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
_BREAKS = re.compile(_BREAK)
_HEADER = re.compile(rf"[|>][-+0-9]*[ \t]*(?:#[^\r\n]*)?{_BREAK}")


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
    """The source range of the value range ``[start, end)``, or None where there is none."""
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
