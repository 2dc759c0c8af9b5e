"""More processes are started on an instance than it has GPUs.

``process_count_per_instance`` counts the processes of one instance, not of the job. Giving the
world size is the classic mistake.

Why: two processes share a GPU, or a process asks for one that is not there: NCCL stops with an
error that names neither number.

Bad::

    process_count_per_instance: 8

Good::

    process_count_per_instance: 4

Fix: write the number of GPUs of the VM size, or leave it out: it is derived.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS203",
    "processes-exceed-gpus",
    "error",
    since="0.1.0",
    summary="more processes on an instance than it has GPUs",
)
