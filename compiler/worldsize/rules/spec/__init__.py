"""WS1: keys, values, compute profiles and schedules."""

from __future__ import annotations

from worldsize.rules.rule import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS101", "spec-unknown-key", "error", "a key that the spec does not have"),
    Rule("WS102", "spec-missing-key", "error", "a missing key that the spec requires"),
    Rule("WS103", "spec-wrong-type", "error", "a value of another type than the key requires"),
    Rule("WS104", "spec-value-not-allowed", "error", "a value that is not allowed"),
    Rule("WS105", "spec-bad-pattern", "error", "a name or reference that does not have the required form"),
    Rule("WS106", "spec-out-of-range", "error", "a number or a length that is out of range"),
    Rule("WS110", "step-needs-uses-or-command", "error", "a step with neither `uses` nor `command`"),
    Rule("WS111", "step-uses-and-command", "error", "a step with both `uses` and `command`"),
    Rule("WS112", "step-key-needs-command", "error",
         "a key that needs `command` on a step that uses a component"),
    Rule("WS113", "step-needs-compute", "error", "a step without a compute profile", on=("Job",)),
    Rule("WS114", "step-unknown-compute", "error", "a compute profile that does not exist"),
    Rule("WS115", "step-count-given-twice", "error", "a count set both on the step and in its distribution"),
    Rule("WS116", "spec-expected", "error", "an Azure ML file where a spec is required", since="0.2.0"),
    Rule("WS120", "compute-min-above-max", "error", "a cluster whose minimum is greater than its maximum"),
    Rule("WS130", "schedule-needs-cron-or-recurrence", "error", "a schedule without a trigger"),
    Rule("WS131", "schedule-cron-and-recurrence", "error", "a schedule with two triggers"),
    Rule("WS132", "schedule-bad-cron", "error", "a cron expression that is not valid"),
    Rule("WS133", "schedule-cron-field-ignored", "warning", "a cron field that Azure ML ignores"),
    Rule("WS134", "schedule-days-unused", "warning", "days that the frequency does not use"),
    Rule("WS135", "schedule-bad-time", "error", "a start or end time that is not valid"),
    Rule("WS136", "schedule-end-before-start", "error", "a schedule that ends before it starts"),
    Rule("WS137", "schedule-unknown-time-zone", "error", "a time zone that Azure ML does not know"),
    Rule("WS140", "aml-unknown-key", "error", "a key that Azure ML does not have"),
    Rule("WS141", "aml-missing-key", "error", "a missing key that Azure ML requires"),
    Rule("WS142", "aml-wrong-type", "error", "a value of another type than Azure ML requires"),
    Rule("WS143", "aml-not-allowed", "error", "a value that Azure ML does not allow"),
    Rule("WS144", "aml-bad-form", "error", "text that does not have the form Azure ML requires"),
    Rule("WS145", "aml-empty-value", "error", "a key without a value"),
    Rule("WS146", "aml-exclusive-keys", "error", "two keys that exclude each other"),
    Rule("WS147", "aml-misplaced-key", "error", "a key in the wrong place"),
    Rule("WS148", "aml-field-of-other-type", "error", "a key that belongs to another `type`"),
    Rule("WS149", "aml-ignored-key", "warning", "a key that Azure ML ignores", confidence="likely"),
    Rule("WS150", "aml-binding-not-allowed", "error", "an expression where Azure ML requires a value"),
    Rule("WS151", "aml-fraction", "error", "a fraction where Azure ML requires a whole number"),
    Rule("WS152", "aml-unquoted-date", "error", "a date where Azure ML requires text"),
    Rule("WS153", "aml-version-read-as-number", "warning",
         "a version that changes when YAML reads it as a number"),
    Rule("WS154", "aml-bad-name", "error", "a step name that is not valid"),
    Rule("WS155", "aml-name-not-text", "error", "a name that YAML reads as something else"),
    Rule("WS156", "aml-component-name", "warning", "a component whose name cannot be registered",
         confidence="likely"),
)
