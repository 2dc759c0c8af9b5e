"""Positions in a text whose expressions were replaced by others, as the plan's in a command become inputs."""

from __future__ import annotations

from functools import lru_cache

from worldsize.azureml import binding

_Spans = tuple[tuple[int, int, int, int], ...]


def map_to_written(written: str, filled: str, start: int, end: int) -> tuple[int, int] | None:
    """Where ``filled[start:end]`` stands in the text as written; None where the texts differ otherwise.

    A position inside of an expression becomes the edge of the one that it replaces.
    """
    if written == filled:
        return start, end
    spans = _pair_expressions(written, filled)
    return None if spans is None else (_map(spans, start, at_end=False), _map(spans, end, at_end=True))


def _map(spans: _Spans, position: int, *, at_end: bool) -> int:
    shift = 0
    for written_start, written_end, filled_start, filled_end in spans:
        if position >= filled_end:
            shift = written_end - filled_end
        elif position > filled_start:
            return written_end if at_end else written_start
        else:
            break
    return position + shift


@lru_cache(maxsize=64)  # many words of one command are looked up
def _pair_expressions(written: str, filled: str) -> _Spans | None:
    """The expressions of both texts with their places, in order; None where anything else differs."""
    spans: list[tuple[int, int, int, int]] = []
    before_written = before_filled = 0
    first, second = binding.find_expressions(written), binding.find_expressions(filled)
    if len(first) != len(second):
        return None
    for one, other in zip(first, second, strict=True):
        if written[before_written : one.start] != filled[before_filled : other.start]:
            return None
        spans.append((one.start, one.end, other.start, other.end))
        before_written, before_filled = one.end, other.end
    return tuple(spans) if written[before_written:] == filled[before_filled:] else None
