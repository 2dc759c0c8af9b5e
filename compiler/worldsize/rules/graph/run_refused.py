"""A job cannot be run here, although Azure ML could run it.

Registered components and data live in a workspace; some kinds of jobs, and some counts, need Azure.
The message names the part.

Why: It is said before the first process starts, not after the third step.

Bad::

    component: azureml:train:4

Good::

    component: ./train/component.yml

Fix: Do what the help says, or submit the job.

Source: ``worldsize run``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS661", "run-refused", "error", since="0.1.0", summary="a job that cannot be run on this machine"
)
