"""The attention heads of the built-in ``gpt`` do not share its width evenly.

Each head takes the same part of the width, and an even one, as positions turn its numbers in pairs.

Why: The training stops when it makes the model, after the cluster has started.

Bad::

    with: {model: gpt, gpt_width: 128, gpt_heads: 3}

Good::

    with: {model: gpt, gpt_width: 128, gpt_heads: 4}

Fix: Write a width that is a multiple of twice the heads.

Source: Su et al. 2021 (arXiv:2104.09864), rotary positions; ``components/train_ddp/README.md``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS241",
    "heads-do-not-divide-width",
    "error",
    since="0.1.0",
    summary="attention heads that do not share the width",
)
