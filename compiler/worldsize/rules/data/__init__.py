"""WS5: data, shards and rows."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS501", "data-missing"),
    Entry("WS502", "code-missing"),
    Entry("WS503", "include-missing"),
    Entry("WS504", "include-clash"),
    Entry("WS505", "user-model-missing"),
    Entry("WS506", "rows-disagree"),
    Entry("WS507", "environment-missing"),
)
