"""A required input has no value, no binding and no earlier output to take.

An open data input is bound to the one earlier output of the same name. Numbers and texts without a
default must be given.

Why: the job is refused at submission.

Bad::

    train:

Good::

    outputs: {shards: uri_folder}

Fix: give the input under ``with:``, or add the step that makes it.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS610", "input-missing", "error", since="0.1.0", summary="a required input that nothing feeds")
