"""Applies the fixes of diagnostics to files and changes no other byte."""

from __future__ import annotations

from worldsize.fixing.apply import Fixed, fix, unified_diff

__all__ = ["Fixed", "fix", "unified_diff"]
