"""WS1: the spec's keys, values, profiles and schedule."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS101", "spec-unknown-key"),
    Entry("WS102", "spec-missing-key"),
    Entry("WS103", "spec-wrong-type"),
    Entry("WS104", "spec-value-not-allowed"),
    Entry("WS105", "spec-bad-pattern"),
    Entry("WS106", "spec-out-of-range"),
    Entry("WS110", "step-needs-uses-or-command"),
    Entry("WS111", "step-uses-and-command"),
    Entry("WS112", "step-key-needs-command"),
    Entry("WS113", "step-needs-compute"),
    Entry("WS114", "step-unknown-compute"),
    Entry("WS115", "step-count-given-twice"),
    Entry("WS120", "compute-min-above-max"),
    Entry("WS130", "schedule-needs-cron-or-recurrence"),
    Entry("WS131", "schedule-cron-and-recurrence"),
    Entry("WS132", "schedule-bad-cron"),
    Entry("WS133", "schedule-cron-field-ignored"),
    Entry("WS134", "schedule-days-unused"),
    Entry("WS135", "schedule-bad-time"),
    Entry("WS136", "schedule-end-before-start"),
    Entry("WS137", "schedule-unknown-time-zone"),
)
