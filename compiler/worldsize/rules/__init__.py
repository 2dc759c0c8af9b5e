"""The catalogue of rules: one a file, grouped by family. See :mod:`worldsize.rules.registry`."""

from __future__ import annotations

from worldsize.rules.context import Context
from worldsize.rules.rule import Entry, Rule

__all__ = ["Context", "Entry", "Rule"]
