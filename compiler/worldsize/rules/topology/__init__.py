"""WS2: VM sizes, processes, workers, instances."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES: tuple[Entry, ...] = ()
