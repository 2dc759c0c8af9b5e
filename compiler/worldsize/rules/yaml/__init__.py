"""WS0: the file itself, suppression comments, and faults of worldsize."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS000", "internal-error"),
    Entry("WS001", "yaml-syntax"),
    Entry("WS002", "yaml-duplicate-key"),
    Entry("WS003", "yaml-unreadable"),
    Entry("WS004", "yaml-not-text"),
    Entry("WS005", "yaml-empty"),
    Entry("WS006", "yaml-too-large"),
    Entry("WS007", "yaml-too-deep"),
    Entry("WS008", "yaml-alias-bomb"),
    Entry("WS009", "file-not-recognised"),
    Entry("WS010", "suppression-unknown"),
    Entry("WS011", "suppression-unused"),
    Entry("WS012", "findings-left-out"),
    Entry("WS013", "file-over-budget"),
    Entry("WS020", "output-not-ours"),
    Entry("WS021", "output-not-written"),
    Entry("WS030", "settings-unknown-key"),
    Entry("WS031", "settings-wrong-value"),
    Entry("WS032", "settings-unknown-rule"),
    Entry("WS033", "settings-path-missing"),
    Entry("WS034", "reference-outside"),
)
