"""An input with ``enum`` is given another word.

The help lists the words.

Why: the job is refused at submission.

Bad::

    format: cvs

Good::

    format: csv

Fix: write one of the words.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS615",
    "input-not-in-enum",
    "error",
    since="0.1.0",
    summary="an input that is none of the declared words",
)
