"""A built-in model is to be split that cannot be.

``mlp`` and ``cnn`` are small and have no blocks to share out. A model of your own is taken at its word: it
has to name its plan.

Why: Every rank stops while the model is built.

Bad::

    with: {model: cnn}

Good::

    with: {model: gpt}

Fix: Use ``gpt`` or a model of your own, or remove the degrees: ``fsdp`` shards any model.

Source: ``components/train_ddp/README.md``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS235",
    "model-not-splittable",
    "error",
    since="0.1.0",
    summary="a model that neither tensor nor pipeline parallelism can cut",
)
