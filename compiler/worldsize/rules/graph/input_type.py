"""An input is given a value of another type than the component declares, or data where a value belongs.

Values are judged by the text that Azure ML hands to the command.

Why: the job is refused, or the script stops when it parses its arguments.

Bad::

    seed: many

Good::

    seed: 1

Fix: write a value of the declared type.

Source: ``schemas/spec.schema.json``; Azure ML's expression syntax.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS613", "input-type", "error", since="0.1.0", summary="an input of another type than declared")
