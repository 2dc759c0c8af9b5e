"""Diagnostics: what is wrong, where, and how to mend it; for people and for machines."""

from __future__ import annotations

from worldsize.diagnostics.diagnostic import Diagnostic, Severity
from worldsize.diagnostics.problem import Fix, Problem, Related
from worldsize.diagnostics.suggest import closest, did_you_mean

__all__ = ["Diagnostic", "Fix", "Problem", "Related", "Severity", "closest", "did_you_mean"]
