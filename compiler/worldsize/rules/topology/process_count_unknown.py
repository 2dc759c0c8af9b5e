"""The number of processes cannot be derived, because the VM size is not given or not known.

A distributed step needs the GPUs of its VM size, or ``process_count_per_instance``.

Why: The world size, and everything that follows from it, is unknown.

Bad::

    gpu: {target: azureml:gpu-cluster}

Good::

    gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}

Fix: Add ``instance_type:`` to the profile, or pin the count in the step.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS205",
    "process-count-unknown",
    "error",
    since="0.1.0",
    summary="a number of processes that cannot be derived",
)
