"""``environment``, ``distribution`` or ``outputs`` on a step that uses a component.

These belong to a step with its own ``command``. A component brings its own, and Azure ML drops most
of them on a step without a word.

Why: The value looks as if it had an effect and has none.

Bad::

    uses: train_ddp
    environment: azureml:my-training:4

Good::

    command: python -c "print('hello')"
    environment: azureml:my-training:4

Fix: Remove the key, or replace ``uses`` by ``command``.

Source: azure-ai-ml: fields of a node that refers to a component.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS112",
    "step-key-needs-command",
    "error",
    since="0.1.0",
    summary="a key of own commands on a step that uses a component",
)
