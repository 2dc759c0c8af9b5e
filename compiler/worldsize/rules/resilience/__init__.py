"""WS7: time-outs, checkpoints, low priority, schedules."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS720", "multi-node-without-timeout", on=("Job",)),
    Entry("WS721", "checkpoints-in-outputs", on=("Step",)),
    Entry("WS722", "low-priority-without-resume", on=("Job",)),
    Entry("WS723", "resilience-without-checkpoints"),
)
