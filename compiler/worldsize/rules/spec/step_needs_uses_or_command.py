"""A step says neither which component it uses nor which command it runs.

Every step does one of the two.

Why: There is nothing to run.

Bad::

    train: {compute: gpu}

Good::

    train: {command: echo hello, environment: "azureml:my-training:4", compute: gpu}

Fix: Add ``uses:`` with a component, or ``command:`` with your own.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS110", "step-needs-uses-or-command", "error", since="0.1.0", summary="a step that runs nothing")
