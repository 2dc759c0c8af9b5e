"""``worker_count`` differs from the number of instances.

Azure ML places one worker on an instance.

Why: TF_CONFIG names workers that never start, and the others wait for them.

Bad::

    distribution: {type: tensorflow, worker_count: 8}

Good::

    distribution: {type: tensorflow, worker_count: 2}

Fix: write the number of instances, or leave it out: it is derived.

Source: Microsoft Learn, Distributed GPU training guide for Azure Machine Learning.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS208", "worker-count-disagrees", "error", since="0.1.0", summary="not one TensorFlow worker an instance"
)
