"""A reference, date or size does not have the form that Azure ML takes.

Registered things are written ``azureml:name:version`` or ``azureml:name@latest``.

Why: The job is refused at submission, or the text is taken for a path.

Bad::

    environment: my-training:4

Good::

    environment: azureml:my-training:4

Fix: Write it in the form that the help shows.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS144", "aml-bad-form", "error", since="0.1.0", summary="a text that does not have Azure ML's form"
)
