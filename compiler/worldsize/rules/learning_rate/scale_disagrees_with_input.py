"""``scale:`` says a setting one way, and the component is told another way.

Optimizer, betas, epsilon and epochs are planned with and trained with.

Why: The plan would be right for a training that does not happen.

Bad::

    optimizer: sgd

Good::

    with: {optimizer: adamw}

Fix: Say it once, under ``with:``.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS405", "scale-disagrees-with-input", "error", since="0.1.0", summary="a setting that is told two ways"
)
