"""A value has another type than its key takes: text for a number, a list for a mapping.

Types are those of YAML 1.1, because Azure ML reads its files that way: ``yes`` is true, ``010`` is
8, ``1:30`` is 90, and ``1e-3`` without a dot is text. The help says so where that is the surprise.

Why: The value would reach the job as something else than what was meant.

Bad::

    instance_count: two

Good::

    instance_count: 2

Fix: Write the value in the form that the help shows.

Source: YAML 1.1, https://yaml.org/type/, as PyYAML reads it.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS103", "spec-wrong-type", "error", since="0.1.0", summary="a value of another type than the key takes"
)
