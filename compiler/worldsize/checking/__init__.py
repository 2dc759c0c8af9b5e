"""The checker: everything that is wrong with specs and Azure ML files, without running any of it."""

from __future__ import annotations

from worldsize.checking.checker import Report, check

__all__ = ["Report", "check"]
