"""WS7: time limits, checkpoints, validation and low-priority instances."""

from __future__ import annotations

from functools import partial

from worldsize.rules.registry import Rule

_validation_rule = partial(Rule, on=("Job",), checked_in="_validation", since="0.2.0")

# One row a rule.
# fmt: off
RULES = (
    Rule("WS720", "multi-node-without-timeout", "warning", "several GPU instances without a time limit",
         on=("Launch",), checked_in="_interruptions", confidence="likely"),
    Rule("WS721", "checkpoints-in-outputs", "warning", "checkpoints written to `./outputs`", on=("Step",),
         checked_in="_interruptions", confidence="likely"),
    Rule("WS722", "low-priority-without-resume", "warning",
         "low-priority or spot instances for a step without checkpoints", on=("Launch", "Planned"),
         checked_in="_interruptions", confidence="likely"),
    Rule("WS723", "resilience-without-checkpoints", "warning",
         "`resilience:` on a step without an output `checkpoints`"),
    _validation_rule("WS724", "early-stopping-without-validation", "error",
                     "early stopping of a training that is never validated"),
    _validation_rule("WS725", "best-metric-unknown", "error", "a `best_metric` that the task does not have"),
    _validation_rule("WS726", "best-without-validation", "warning",
                     "`export: best` of a training that is never validated"),
    _validation_rule("WS727", "validation-after-training", "warning",
                     "validations further apart than the training is long"),
    Rule("WS728", "low-priority-saves-nothing", "warning",
         "low-priority instances that cost as much as dedicated ones", on=("Launch",),
         checked_in="_interruptions", confidence="likely", since="0.2.0"),
    Rule("WS729", "low-priority-costs-more", "warning",
         "low-priority instances that cost more than dedicated ones, because nothing is saved",
         on=("Launch", "Planned"), checked_in="_interruptions", confidence="likely", since="0.2.0"),
)
