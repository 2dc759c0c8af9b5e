"""A key is given twice in one mapping.

Azure ML reads the last one and drops the first without a word, also when the key is the name of a
step. Keys count as equal when their values are: ``yes`` and ``true`` are one key. Keys that a merge
``<<`` brings in may be overridden; that is what it is for.

Why: A copied step or input that was not renamed silently replaces the one it was copied from.

Bad::

    epochs: 3
    epochs: 30

Good::

    epochs: 30

Fix: Keep one of them.

Source: YAML 1.1, section 3.2.1.3: the keys of a mapping are unique.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS002", "yaml-duplicate-key", "error", since="0.1.0", summary="a key is given twice in one mapping"
)
