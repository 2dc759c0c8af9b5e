"""An option that the strategy of a built-in component does not take.

``fp16`` needs a loss scale that all parts of a split model would have to agree on. With a pipeline no layer
is on all ranks, so none can share its batch statistics. The schedule ``1f1b`` needs as many micro-batches as
stages. A worker of ``parameter_server`` drives one GPU. Adasum combines ranks in pairs, so there is a power
of two of them. DeepSpeed offloads parameters, and anything to ``nvme``, at ZeRO stage 3 only, and scales the
loss under ``fp16`` only.

Why: The training stops in its first seconds, on paid GPUs.

Bad::

    with: {strategy: tensor_parallel, precision: fp16}

Good::

    with: {strategy: tensor_parallel, precision: bf16}

Fix: Write the value of the help.

Source: PyTorch, ``torch.distributed.pipelining.Schedule1F1B``; DeepSpeed, configuration JSON; Maleki et al.
2020 (arXiv:2006.02924); the components' READMEs.
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
