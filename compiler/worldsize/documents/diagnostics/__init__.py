"""Diagnostics: what is wrong, where, and how to fix it; for people and for programs."""

from __future__ import annotations

from worldsize.base.problem import Fix, Problem, Related
from worldsize.base.suggest import closest, did_you_mean
from worldsize.documents.diagnostics.diagnostic import Diagnostic, Severity

__all__ = ["Diagnostic", "Fix", "Problem", "Related", "Severity", "closest", "did_you_mean"]
