"""A value that YAML reads as a date stands where Azure ML takes text.

``2026-01-01`` without quotes is a date object in YAML 1.1.

Why: The SDK stops with a Python ``TypeError`` that names no file and no line.

Bad::

    display_name: 2026-01-01

Good::

    display_name: "2026-01-01"

Fix: Put it in quotes.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS152", "aml-unquoted-date", "error", since="0.1.0", summary="a date where text must stand")
