"""A pipeline gets fewer micro-batches than it has stages.

The micro-batches of gradient accumulation flow through the stages one after the other. With `p` stages and
`a` micro-batches each stage idles (p − 1) / (a + p − 1) of a step.

Why: Some stages idle at every moment of the step, on paid GPUs.

Bad::

    parallelism: {pipeline: 4}

Good::

    gradient_accumulation_steps: 16

Fix: Write the accumulation of the help; four micro-batches a stage keep the idle share below a fifth.

Source: GPipe, Huang et al. 2019 (arXiv:1811.06965), section 2.3.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS237",
    "pipeline-bubble",
    "warning",
    since="0.1.0",
    summary="fewer micro-batches than pipeline stages",
)
