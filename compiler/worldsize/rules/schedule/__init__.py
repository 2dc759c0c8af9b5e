"""WS68: schedules in Azure ML's own YAML."""

from __future__ import annotations

from functools import partial

from worldsize.rules.registry import Rule

_schedule_rule = partial(Rule, on=("JobSchedule",))
_job_rule = partial(_schedule_rule, checked_in="_schedules")

# One row a rule.
# fmt: off
RULES = (
    _schedule_rule("WS680", "recurrence-out-of-range", "error",
                   "an hour, minute, day or interval that is out of range", checked_in="_schedules"),
    _schedule_rule("WS681", "start-offset-dropped", "error",
                   "a start or end time with a UTC offset, which Azure ML drops", checked_in="_schedules"),
    _job_rule("WS682", "schedule-needs-pipeline", "error", "a scheduled job that is not a pipeline"),
    _job_rule("WS683", "schedule-job-missing", "error", "a scheduled job file that does not exist"),
    _job_rule("WS684", "schedule-input-unknown", "error",
              "an input that the scheduled pipeline does not have"),
    Rule("WS685", "schedule-reuses-everything", "warning", "a schedule that does no work after its first run",
         on=("JobSchedule",), checked_in="_schedules", confidence="likely"),
    _job_rule("WS686", "create-job-without-type", "warning", "a scheduled job without a type"),
    Rule("WS687", "schedule-keeps-version", "warning", "data of a schedule that is named by a label",
         on=("JobSchedule", "Planned"), checked_in="_schedules", confidence="likely", since="0.2.0"),
    Rule("WS688", "schedule-repeats-data", "warning", "a schedule that trains on data that cannot change",
         on=("JobSchedule", "Planned"), checked_in="_schedules", confidence="likely", since="0.2.0"),
    Rule("WS689", "schedule-skips-months", "warning", "a schedule on a day that not every month has",
         on=("JobSchedule", "Planned"), checked_in="_schedules", since="0.2.0"),
    Rule("WS690", "schedule-overtakes-itself", "warning", "a schedule that is faster than its training",
         confidence="likely", since="0.2.0"),
)
