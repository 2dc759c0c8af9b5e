"""Applying the safe fixes of diagnostics to files, byte for byte the same everywhere else."""

from __future__ import annotations

from worldsize.fixing.apply import Fixed, fix
from worldsize.fixing.apply import unified_diff

__all__ = ["Fixed", "fix", "unified_diff"]
