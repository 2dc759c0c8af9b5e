"""WS68: schedules in Azure ML's own YAML."""

from __future__ import annotations

from worldsize.rules.registry import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS680", "recurrence-out-of-range", "error", "an hour, minute, day or interval that is out of range",
         on=("JobSchedule",)),
    Rule("WS681", "start-offset-dropped", "error",
         "a start or end time with a UTC offset, which Azure ML drops",
         on=("JobSchedule",)),
    Rule("WS682", "schedule-needs-pipeline", "error", "a scheduled job that is not a pipeline",
         on=("JobSchedule",)),
    Rule("WS683", "schedule-job-missing", "error", "a scheduled job file that does not exist",
         on=("JobSchedule",)),
    Rule("WS684", "schedule-input-unknown", "error", "an input that the scheduled pipeline does not have",
         on=("JobSchedule",)),
    Rule("WS685", "schedule-reuses-everything", "warning", "a schedule that does no work after its first run",
         on=("JobSchedule",), confidence="likely"),
    Rule("WS686", "create-job-without-type", "warning", "a scheduled job without a type",
         on=("JobSchedule",)),
    Rule("WS687", "schedule-keeps-version", "warning", "data of a schedule that is named by a label",
         on=("JobSchedule", "Planned"), checked_in="_kept_data", since="0.2.0", confidence="likely"),
    Rule("WS688", "schedule-repeats-data", "warning", "a schedule that trains on data that cannot change",
         on=("JobSchedule", "Planned"), checked_in="_kept_data", since="0.2.0", confidence="likely"),
)
