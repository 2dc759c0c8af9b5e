"""``process_count_per_instance`` is given on a step that starts no process group.

Without ``distribution:`` Azure ML starts the command once on the first instance.

Why: The job trains on one GPU and reports success.

Bad::

    process_count_per_instance: 4

Good::

    distribution: {type: pytorch, process_count_per_instance: 4}

Fix: Add ``distribution:``, or remove the count.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS206",
    "processes-without-distribution",
    "error",
    since="0.1.0",
    summary="a process count on a step that is not distributed",
)
