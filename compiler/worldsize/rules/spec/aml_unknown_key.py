"""A key that Azure ML does not know at this place of a job, component, compute or schedule.

Azure ML's keys are in snake_case. Where a known key is near, or the word is another tool's, the
help names the right one.

Why: ``az ml job create`` refuses the file, with a dump of every shape it might have had and no
line.

Bad::

    enviroment: azureml:my-training:4

Good::

    environment: azureml:my-training:4

Fix: Write the key that the help offers.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS140", "aml-unknown-key", "error", since="0.1.0", summary="a key that Azure ML does not have")
