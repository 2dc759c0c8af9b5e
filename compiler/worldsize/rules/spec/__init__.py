"""WS1: the spec's keys, values, profiles and schedule."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES: tuple[Entry, ...] = ()
