"""``worldsize.yml`` selects, ignores or grades a rule that does not exist.

Why: The rule that was meant is reported, or left out, as if nothing had been said.

Bad::

    ignore: [yaml-emtpy]

Good::

    ignore: [yaml-empty]

Fix: Write a code (``WS203``), the beginning of one (``WS2``) or a slug; ``worldsize explain`` lists them.

Source: ``schemas/worldsize.schema.json``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS032",
    "settings-unknown-rule",
    "error",
    since="0.1.0",
    summary="`worldsize.yml` names a rule that does not exist",
)
