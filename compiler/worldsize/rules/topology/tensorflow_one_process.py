"""Several processes an instance are asked for in a TensorFlow step.

Azure ML starts one TensorFlow process on an instance; it drives all GPUs of that instance.

Why: The count has no effect, and who reads it expects another world size.

Bad::

    distribution: {type: tensorflow, process_count_per_instance: 4}

Good::

    distribution: {type: tensorflow, worker_count: 2}

Fix: Remove it.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS207",
    "tensorflow-one-process",
    "error",
    since="0.1.0",
    summary="several TensorFlow processes on an instance",
)
