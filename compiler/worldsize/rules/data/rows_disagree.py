"""``rows:`` differs from the training rows that were counted in the data.

Rows of built-in and small local data are counted, without the validation split.

Why: Steps per epoch, total steps and warm-up steps would all be wrong.

Bad::

    rows: 2000

Good::

    rows: 1438

Fix: Write the counted number, or leave it out.

Source: The plan.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS506", "rows-disagree", "error", since="0.1.0", summary="a number of rows that the data contradicts"
)
