"""Aliases repeat more than 50,000 values, or an alias stands inside its own anchor.

A few lines of aliases to aliases stand for billions of values. The file is given up before they are
expanded.

Why: Whatever walks the values (validation, submission) runs out of memory or time.

Bad::

    outputs: &outputs {again: *outputs}

Good::

    train: &train
      compute: gpu
    again:
      <<: *train

Fix: Write the values out, or nest fewer aliases.

Source: YAML 1.1, section 7.1, alias nodes; the bound is of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS008", "yaml-alias-bomb", "error", since="0.1.0", summary="aliases that expand without bound")
