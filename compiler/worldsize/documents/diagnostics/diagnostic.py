"""A problem with its code and severity, as every renderer and the Python API show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from worldsize.base.problem import Confidence, Fix, Related
from worldsize.base.span import Span

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
INTERNAL = "WS000"  # a fault of worldsize itself, which nothing can silence


class Diagnostic(Struct, frozen=True):
    """One finding. Findings are sorted by path, line, column, code and message."""

    code: str
    slug: str
    severity: Severity
    message: str
    span: Span
    help: str | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    docs: str = ""  # the address of the rule's page
    confidence: Confidence = "certain"

    def __str__(self) -> str:
        return f"{self.span}: {self.severity}[{self.code}] {self.message}"

    @property
    def fix_safety(self) -> str:
        """``safe``, ``unsafe`` or ``none``: what kind of fix it has."""
        return "none" if self.fix is None else "safe" if self.fix.safe else "unsafe"

    @property
    def is_shown_by_default(self) -> bool:
        """Whether people see it unasked: all but notes, except those on the check itself (``WS0``)."""
        return self.severity != "info" or self.code.startswith("WS0")

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        """The sort key of the output."""
        return (self.span.path, self.span.line, self.span.column, self.code, self.message)


def sort_unique(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort diagnostics and drop repetitions: a component that is used twice has each finding once."""
    unique: dict[tuple[object, ...], Diagnostic] = {}
    for diagnostic in diagnostics:
        unique.setdefault((*diagnostic.sort_key, diagnostic.span), diagnostic)
    return sorted(unique.values(), key=lambda diagnostic: diagnostic.sort_key)


def count_severities(diagnostics: Iterable[Diagnostic]) -> dict[Severity, int]:
    """Count the diagnostics of each severity."""
    totals: dict[Severity, int] = dict.fromkeys(SEVERITIES, 0)
    for diagnostic in diagnostics:
        totals[diagnostic.severity] += 1
    return totals
