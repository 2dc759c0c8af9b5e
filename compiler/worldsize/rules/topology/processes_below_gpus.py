"""Fewer processes are started on an instance than it has GPUs.

One process drives one GPU, so the others idle. It is meant where the script drives several GPUs
from one process; suppress it there.

Why: the whole instance is paid for.

Bad::

    process_count_per_instance: 2

Good::

    process_count_per_instance: 4

Fix: write the number of GPUs, or leave it out: it is derived.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS204",
    "processes-below-gpus",
    "warning",
    since="0.1.0",
    summary="fewer processes on an instance than it has GPUs",
)
