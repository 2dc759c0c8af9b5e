"""A degree of tensor or pipeline parallelism is asked of a step that cannot split a model.

TensorFlow's strategies keep a whole model on every GPU. A component that splits models declares the inputs
``tensor_parallel_size`` and ``pipeline_parallel_size``.

Why: Every process would train a whole model, on a smaller global batch than the plan says.

Bad::

    parallelism: {tensor: 2}

Good::

    parallelism: {data: 8}

Fix: Remove the degree, or use a component that takes it, such as ``train_ddp``.

Source: TensorFlow's guide "Distributed training with TensorFlow".
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS238",
    "model-parallelism-unsupported",
    "error",
    since="0.1.0",
    summary="degrees of parallelism that nothing takes",
)
