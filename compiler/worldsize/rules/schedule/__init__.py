"""WS68: Azure ML's own schedules: when they start, and what."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS680", "recurrence-out-of-range", on=("JobSchedule",)),
    Entry("WS681", "start-offset-dropped", on=("JobSchedule",)),
    Entry("WS682", "schedule-needs-pipeline", on=("JobSchedule",)),
    Entry("WS683", "schedule-job-missing", on=("JobSchedule",)),
    Entry("WS684", "schedule-input-unknown", on=("JobSchedule",)),
    Entry("WS685", "schedule-reuses-everything", on=("JobSchedule",)),
    Entry("WS686", "create-job-without-type", on=("JobSchedule",)),
)
