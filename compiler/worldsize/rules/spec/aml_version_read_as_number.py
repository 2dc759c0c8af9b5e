"""A version without quotes is read as a number and becomes another text.

``1.10`` becomes ``1.1``, ``01`` becomes ``1``.

Why: The component is registered under a version that nobody asked for, perhaps over an older one.

Bad::

    version: 1.10

Good::

    version: "1.10"

Fix: Put it in quotes.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS153",
    "aml-version-read-as-number",
    "warning",
    since="0.1.0",
    summary="a version that loses digits when read as a number",
)
