"""Numbers as people read them."""

from __future__ import annotations


def clean(value: float) -> float:
    """Twelve significant digits: 0.1 × 3 is 0.3, not 0.30000000000000004."""
    return float(f"{value:.12g}")


def show(value: float | str | None) -> str:
    """A number for a message or a table: ``0.4``, ``256``, ``1e-05``; whole floats lose their ``.0``."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else repr(value)
    return str(value)


def plural(count: float, noun: str) -> str:
    """``1 instance``, ``2 instances``, ``2 processes``."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{show(count)} {noun}{ending}"
