"""The pipeline degree does not divide the layers of the built-in gpt.

Each stage takes as many layers as any other.

Why: A stage without a layer has nothing to do, and a longer stage holds up all others in every micro-batch.

Bad::

    parallelism: {pipeline: 4}

Good::

    parallelism: {pipeline: 2}

Fix: Write the degree of the help, or make ``gpt_layers`` a multiple of it.

Source: GPipe, Huang et al. 2019 (arXiv:1811.06965), section 2.2.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS233",
    "pipeline-degree-does-not-divide-layers",
    "error",
    since="0.1.0",
    summary="a pipeline degree that the layers cannot be divided by",
)
