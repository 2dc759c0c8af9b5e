"""A suppression comment names no code, or one that no rule has.

Codes and slugs both work; several are separated by commas. ``WS000`` cannot be suppressed.

Why: A misspelt code silences nothing today and looks as if it did.

Bad::

    name: digits  # worldsize: ignore[WS1000] on purpose

Good::

    # worldsize: ignore[yaml-duplicate-key] the second one overrides on purpose

Fix: Write a code that ``worldsize explain`` lists, in brackets behind ``ignore``.

Source: None; the syntax is of worldsize.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS010", "suppression-unknown", "warning", since="0.1.0", summary="a suppression without a known code"
)
