"""The steps of a job that is to be run read each other's outputs in a circle.

For a spec the same fault is found earlier, as ``graph-cycle``.

Why: None of them could ever start.

Bad::

    a: "${{parent.jobs.second.outputs.b}}"

Good::

    a: "azureml:seed-data:1"

Fix: Remove one of the bindings.

Source: ``worldsize run``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS662", "run-cycle", "error", since="0.1.0", summary="steps of a job that wait for each other")
