"""WS4: scaling of the learning rate and warm-up."""

from __future__ import annotations

from worldsize.rules.rule import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS401", "optimizer-unknown", "error", "no scaling rule for the optimizer"),
    Rule("WS402", "learning-rate-disagrees", "warning",
         "a pinned learning rate that the scaling rule does not give"),
    Rule("WS403", "sqrt-rule-out-of-range", "warning", "the square-root rule beyond its range"),
    Rule("WS404", "warmup-longer-than-training", "warning", "a warm-up that outlasts the training"),
    Rule("WS405", "scale-disagrees-with-input", "error",
         "a setting of `scale:` that the component's input contradicts"),
    Rule("WS406", "learning-rate-in-two-places", "warning", "two different learning rates",
         on=("Job",), when="deepspeed"),
)
