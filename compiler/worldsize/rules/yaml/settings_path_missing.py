"""A folder under ``allow:`` of ``worldsize.yml`` does not exist.

Why: Nothing in it can be checked, and references to it are passed over.

Bad::

    allow: [../no-such-folder]

Good::

    allow: [shared]

Fix: Write the path relative to the folder of ``worldsize.yml``, or remove it.

Source: ``schemas/worldsize.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS033",
    "settings-path-missing",
    "warning",
    since="0.1.0",
    summary="a folder that `worldsize.yml` allows does not exist",
)
