"""WS7: time limits, checkpoints and low-priority instances."""

from __future__ import annotations

from worldsize.rules.rule import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS720", "multi-node-without-timeout", "warning", "several GPU instances without a time limit",
         on=("Launch",), confidence="likely"),
    Rule("WS721", "checkpoints-in-outputs", "warning", "checkpoints written to `./outputs`", on=("Step",),
         confidence="likely"),
    Rule("WS722", "low-priority-without-resume", "warning",
         "low-priority or spot instances for a step without checkpoints", on=("Launch",),
         confidence="likely"),
    Rule("WS723", "resilience-without-checkpoints", "warning",
         "`resilience:` on a step without an output `checkpoints`"),
)
