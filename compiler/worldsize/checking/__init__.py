"""The checker: everything that is wrong with specs and Azure ML files, without running any of it."""

from __future__ import annotations

from worldsize.checking.checker import check
from worldsize.checking.report import Report
from worldsize.checking.specs import CheckedSpec, check_job, check_spec, in_budget, refuse_incomplete

__all__ = ["CheckedSpec", "Report", "check", "check_job", "check_spec", "in_budget", "refuse_incomplete"]
