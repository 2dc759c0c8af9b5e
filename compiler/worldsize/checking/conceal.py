"""Keeps secrets that were found out of the excerpts: reports end up in logs that many can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.diagnostics.diagnostic import Diagnostic
from worldsize.yaml.source import Source

_SECRET = frozenset({"secret-in-text", "secret-in-variable"})
_SHOWN = 4  # characters at its start, by which its owner recognises it


def secrets(sources: Mapping[str, Source], diagnostics: Iterable[Diagnostic]) -> dict[str, Source]:
    """The texts with every reported secret starred out; positions stay the same."""
    shown = dict(sources)
    for found in diagnostics:
        source = shown.get(found.span.path)
        if found.slug in _SECRET and source is not None:
            start = source.offset(found.span.line, found.span.column) + _SHOWN
            end = source.offset(found.span.end_line, found.span.end_column)
            stars = "*" * max(end - start, 0)
            shown[found.span.path] = Source(source.path, f"{source.text[:start]}{stars}{source.text[end:]}")
    return shown
