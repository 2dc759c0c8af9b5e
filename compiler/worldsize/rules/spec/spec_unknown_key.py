"""A key that does not exist at this place of a spec.

A spec has a closed set of keys, described in ``schemas/spec.schema.json``. Where a known key is
near, the help names it.

Why: A misspelt key would otherwise be ignored, and the job would run with a default nobody chose.

Bad::

    instance_cuont: 2

Good::

    instance_count: 2

Fix: Write the key that the help offers, or remove the line.

Source: ``schemas/spec.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS101", "spec-unknown-key", "error", since="0.1.0", summary="a key that the spec does not have")
