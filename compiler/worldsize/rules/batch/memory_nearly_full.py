"""A training step needs more than nine tenths of the memory that a process has.

The memory is worked out as for WS320. What no formula knows comes on top: fragments of the allocator, work
space of the kernels, what other libraries keep.

Why: The job may stop for want of memory, perhaps hours after its start.

Bad::

    with: {model: gpt, gpt_layers: 48, gpt_heads: 32, gpt_width: 2560,
           optimizer: adamw, epochs: 1, precision: bf16}

Good::

    with: {model: gpt, gpt_layers: 48, gpt_heads: 32, gpt_width: 2560,
           optimizer: adamw, epochs: 1, precision: bf16, strategy: fsdp}

Fix: Take one of the changes that the help names, or measure a few steps and suppress this.

Source: Rajbhandari et al. 2020 (arXiv:1910.02054); Korthikanti et al. 2022 (arXiv:2205.05198).
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS321",
    "memory-nearly-full",
    "warning",
    since="0.1.0",
    summary="a training that takes nearly all memory of its VM size",
)
