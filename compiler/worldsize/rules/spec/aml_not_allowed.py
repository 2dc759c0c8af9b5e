"""A value is not one of the words that Azure ML takes at this place.

Some words may be written in any case (``distribution.type``), others may not (the ``type`` of a
file or port).

Why: The job is refused at submission.

Bad::

    distribution: {type: torch}

Good::

    distribution: {type: pytorch}

Fix: Write one of the words that the help lists.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS143", "aml-not-allowed", "error", since="0.1.0", summary="a word that Azure ML does not take here"
)
