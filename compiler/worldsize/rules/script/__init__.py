"""WS9: the training script that a command names, read as text and never run."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES: tuple[Entry, ...] = ()
