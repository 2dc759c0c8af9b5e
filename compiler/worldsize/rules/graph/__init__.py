"""WS6: steps, components, ports and bindings."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS602", "component-missing"),
    Entry("WS603", "component-not-mapping"),
    Entry("WS604", "component-recursive"),
)
