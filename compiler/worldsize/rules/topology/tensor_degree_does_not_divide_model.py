"""The tensor degree does not divide the attention heads or the width of the built-in gpt.

Each rank takes whole attention heads, and an equal part of every layer's width.

Why: The layers cannot be cut, and every rank stops while the model is built.

Bad::

    parallelism: {tensor: 8}

Good::

    parallelism: {tensor: 4}

Fix: Write the degree of the help, or make ``gpt_heads`` and ``gpt_width`` multiples of it.

Source: Megatron-LM, Shoeybi et al. 2019 (arXiv:1909.08053), section 3.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS232",
    "tensor-degree-does-not-divide-model",
    "error",
    since="0.1.0",
    summary="a tensor degree that heads or width cannot be divided by",
)
