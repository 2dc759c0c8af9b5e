"""A step says what interruptions cost it, but has no output ``checkpoints``.

The interval between checkpoints fills the inputs of training components, and a restart goes on from what is
in that output, which survives the try that failed.

Why: Without it every restart begins at the first step, and the plan's expected loss is wrong.

Bad::

    shard:
      uses: shard_data
      with: {source: "builtin:digits"}
      resilience: {max_restarts: 3}

Good::

    train:
      uses: train_ddp
      resilience: {max_restarts: 3}

Fix: Write checkpoints to an output called ``checkpoints`` and read them at the start, or remove
``resilience``.

Source: ``compiler/docs/spec.md``, resilience.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS723",
    "resilience-without-checkpoints",
    "warning",
    since="0.1.0",
    summary="a step that cannot resume speaks of interruptions",
)
