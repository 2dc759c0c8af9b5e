"""WS2: VM sizes, processes, workers, instances."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (Entry("WS250", "distribution-field-of-other-type"),)
