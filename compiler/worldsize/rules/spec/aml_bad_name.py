"""The name of a step has characters that Azure ML does not take.

Step names have lower-case letters, digits and ``_`` and do not begin with a digit.

Why: The pipeline is refused at submission.

Bad::

    train-ddp:

Good::

    train_ddp:

Fix: Rename the step, and the expressions that name it.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS154", "aml-bad-name", "error", since="0.1.0", summary="a name that a step cannot have")
