"""The name of a step, input or variable is read as a number, a truth value or nothing.

``on``, ``yes``, ``no`` and ``1`` are not text in YAML 1.1.

Why: The name that reaches Azure ML is ``True`` or ``1``, and expressions that use it find nothing.

Bad::

    yes:

Good::

    "yes":

Fix: Put it in quotes.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS155", "aml-name-not-text", "error", since="0.1.0", summary="a name that YAML reads as something else"
)
