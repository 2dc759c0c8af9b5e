"""WS4: scaling of the learning rate and warm-up."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES: tuple[Entry, ...] = ()
