"""An option that the strategy of a built-in component does not take.

``fp16`` needs a loss scale that all parts of a split model would have to agree on. With a pipeline no layer
is on all ranks, so none can share its batch statistics. The schedule ``1f1b`` needs as many micro-batches as
stages.

Why: the training stops in its first seconds, on paid GPUs.

Bad::

    with: {strategy: tensor_parallel, precision: fp16}

Good::

    with: {strategy: tensor_parallel, precision: bf16}

Fix: write the value of the help.

Source: PyTorch, ``torch.distributed.pipelining.Schedule1F1B``; ``components/train_ddp/README.md``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS239",
    "strategy-option-refused",
    "error",
    since="0.1.0",
    summary="an option that the strategy does not take",
)
