"""WS6: steps, components, ports and bindings."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES: tuple[Entry, ...] = ()
