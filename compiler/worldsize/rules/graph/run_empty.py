"""A job that is to be run here has no step.

A pipeline has ``jobs:`` with one entry a step.

Why: There is nothing to run.

Bad::

    jobs: {}

Good::

    jobs: {train: {component: ./component.yml}}

Fix: Add a step.

Source: ``worldsize run``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS660", "run-empty", "error", since="0.1.0", summary="a job without a step to run")
