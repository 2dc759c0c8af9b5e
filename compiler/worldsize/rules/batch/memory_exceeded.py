"""A training step needs more memory than a process has.

Weights, gradients, optimizer states and activations of the built-in models follow from their sizes, the
micro-batch, the strategy and the precision. A GPU's memory is that of the VM size; processes without a GPU
share the memory of their instance. `worldsize plan --memory` prints the parts. Steps whose model or samples
are not known before the run are left out.

Why: The job stops at its first step, out of memory, after the cluster has started.

Bad::

    with: {model: gpt, gpt_layers: 48, gpt_heads: 32, gpt_width: 4096,
           optimizer: adamw, epochs: 1, precision: bf16}

Good::

    with: {model: gpt, gpt_layers: 24, gpt_heads: 16, gpt_width: 1024, optimizer: adamw, epochs: 1}

Fix: Take one of the changes that the help names; the memory that is needed then stands beside each.

Source: Rajbhandari et al. 2020 (arXiv:1910.02054); Korthikanti et al. 2022 (arXiv:2205.05198).
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS320",
    "memory-exceeded",
    "error",
    since="0.1.0",
    summary="a training that does not fit the memory of its VM size",
)
