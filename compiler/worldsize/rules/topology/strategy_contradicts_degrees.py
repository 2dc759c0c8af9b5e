"""The strategy does not do what the degrees of `parallelism` say.

``ddp`` keeps a whole model in every process. ``fsdp`` takes a tensor degree beside its own sharding, but no
pipeline. ``tensor_parallel`` needs a tensor degree above 1, ``pipeline_parallel`` a pipeline degree above 1;
the latter takes a tensor degree as well.

Why: The training stops at its first line, or trains without the split that was asked for.

Bad::

    with: {model: gpt, strategy: ddp}

Good::

    with: {model: gpt, strategy: tensor_parallel}

Fix: Write the strategy of the help, or leave it out: the degrees choose it.

Source: PyTorch, ``torch.distributed``: DDP, FSDP2, tensor and pipeline parallelism.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS236",
    "strategy-contradicts-degrees",
    "error",
    since="0.1.0",
    summary="a strategy and degrees of parallelism that exclude each other",
)
