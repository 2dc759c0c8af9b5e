"""WS1: the spec's keys, values, profiles and schedule."""

from __future__ import annotations

from worldsize.rules.rule import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS101", "spec-unknown-key", "error", "a key that the spec does not have"),
    Rule("WS102", "spec-missing-key", "error", "a key that must be given is absent"),
    Rule("WS103", "spec-wrong-type", "error", "a value of another type than the key takes"),
    Rule("WS104", "spec-value-not-allowed", "error", "a value that is not one of the allowed words"),
    Rule("WS105", "spec-bad-pattern", "error", "a name or reference of a form that is not accepted"),
    Rule("WS106", "spec-out-of-range", "error", "a number or length outside what the key takes"),
    Rule("WS110", "step-needs-uses-or-command", "error", "a step that runs nothing"),
    Rule("WS111", "step-uses-and-command", "error", "a step with both a component and a command"),
    Rule("WS112", "step-key-needs-command", "error", "a key for commands on a step that uses a component"),
    Rule("WS113", "step-needs-compute", "error", "a step that does not say where it runs", on=("Job",)),
    Rule("WS114", "step-unknown-compute", "error", "a compute profile that does not exist"),
    Rule("WS115", "step-count-given-twice", "error", "a count given on the step and in its distribution"),
    Rule("WS116", "spec-expected", "error", "an Azure ML file where a spec is expected", since="0.2.0"),
    Rule("WS120", "compute-min-above-max", "error", "a cluster whose minimum is above its maximum"),
    Rule("WS130", "schedule-needs-cron-or-recurrence", "error", "a schedule that does not say when"),
    Rule("WS131", "schedule-cron-and-recurrence", "error", "a schedule with two triggers"),
    Rule("WS132", "schedule-bad-cron", "error", "a cron expression that Azure ML cannot read"),
    Rule("WS133", "schedule-cron-field-ignored", "warning", "a cron field that Azure ML ignores"),
    Rule("WS134", "schedule-days-unused", "warning", "days that the frequency does not look at"),
    Rule("WS135", "schedule-bad-time", "error", "a time that the calendar does not have"),
    Rule("WS136", "schedule-end-before-start", "error", "a schedule that ends before it starts"),
    Rule("WS137", "schedule-unknown-time-zone", "error", "a time zone that Azure ML does not know"),
    Rule("WS140", "aml-unknown-key", "error", "a key that Azure ML does not have"),
    Rule("WS141", "aml-missing-key", "error", "a key that Azure ML needs is absent"),
    Rule("WS142", "aml-wrong-type", "error", "a value of another type than Azure ML takes"),
    Rule("WS143", "aml-not-allowed", "error", "a value that is not one of the words Azure ML allows"),
    Rule("WS144", "aml-bad-form", "error", "text that does not have the form Azure ML requires"),
    Rule("WS145", "aml-empty-value", "error", "a key without a value"),
    Rule("WS146", "aml-exclusive-keys", "error", "two keys that exclude each other"),
    Rule("WS147", "aml-misplaced-key", "error", "a key that belongs somewhere else"),
    Rule("WS148", "aml-field-of-other-type", "error", "a key of another type"),
    Rule("WS149", "aml-ignored-key", "warning", "a key that Azure ML ignores"),
    Rule("WS150", "aml-binding-not-allowed", "error", "an expression where Azure ML needs a value"),
    Rule("WS151", "aml-fraction", "error", "a fraction where Azure ML needs a whole number"),
    Rule("WS152", "aml-unquoted-date", "error", "a date where Azure ML needs text"),
    Rule("WS153", "aml-version-read-as-number", "warning",
         "a version that loses digits when read as a number"),
    Rule("WS154", "aml-bad-name", "error", "a name that a step cannot have"),
    Rule("WS155", "aml-name-not-text", "error", "a name that YAML reads as something else"),
    Rule("WS156", "aml-component-name", "warning", "a component that cannot be registered under its name"),
)
