"""Time zones by the Windows names that Azure ML's schedules take."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from worldsize.base.problem import Fix, Problem
from worldsize.base.span import Span
from worldsize.spec.suggest import closest


@cache
def table() -> dict[str, tuple[str, ...]]:
    """Windows name -> the IANA names it stands for, in the order of Azure ML's own list."""
    text = Path(__file__).with_name("time_zones.txt").read_text(encoding="utf-8")
    rows = (line.partition("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: tuple(iana.split()) for name, _, iana in rows}


def windows_name(name: str) -> str | None:
    """The Windows name for an IANA name (``Europe/Berlin``) or for a near miss; None if nothing is near."""
    wanted = name.strip().lower()
    for windows, iana_names in table().items():
        if wanted == windows.lower() or wanted in (iana.lower() for iana in iana_names):
            return windows
    return closest(name, table())


def unknown_zone(name: str, span: Span) -> Problem:
    """The problem of a zone that Azure ML's list does not have."""
    meant = windows_name(name)
    is_iana = any(name in iana_names for iana_names in table().values())
    if meant is None:
        help_ = "use a Windows name such as `W. Europe Standard Time`, or `UTC`"
    else:
        help_ = f"write `{meant}`" if is_iana else f"did you mean `{meant}`?"
    reason = (
        "is an IANA name; Azure ML wants the Windows name" if is_iana else "is not one that Azure ML knows"
    )
    fix = Fix(span, meant) if is_iana and meant else None
    return Problem("schedule-unknown-time-zone", span, f"time zone `{name}` {reason}", help_, fix=fix)
