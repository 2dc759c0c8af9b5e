"""A component file has no name, or one under which it cannot be registered.

A pipeline that refers to the file by path does not need the name; ``az ml component create`` does.

Why: The component works in one pipeline and cannot be shared.

Bad::

    name: Train-DDP

Good::

    name: train

Fix: Use lower-case letters, digits and ``_``, and begin with a letter.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS156",
    "aml-component-name",
    "warning",
    since="0.1.0",
    summary="a component that cannot be registered under its name",
)
