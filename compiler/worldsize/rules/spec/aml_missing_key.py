"""A key that Azure ML needs at this place is absent.

What is needed depends on ``type``; the message names the place and the key.

Why: The job is refused at submission.

Bad::

    command: python train.py

Good::

    command: python train.py
    environment: azureml:my-training:4

Fix: Add the key.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS141", "aml-missing-key", "error", since="0.1.0", summary="a key that Azure ML needs is absent")
