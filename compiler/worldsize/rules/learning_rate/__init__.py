"""WS4: learning rate scaling and warm-up."""

from __future__ import annotations

from worldsize.rules.registry import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS401", "optimizer-unknown", "error",
         "a scaling rule that cannot be chosen without a known optimizer"),
    Rule("WS402", "learning-rate-disagrees", "warning",
         "a pinned learning rate that differs from the scaling rule", confidence="likely"),
    Rule("WS403", "sqrt-rule-out-of-range", "warning", "a batch that grows too much for the square-root rule",
         confidence="likely"),
    Rule("WS404", "warmup-longer-than-training", "warning", "a warm-up that is longer than the training"),
    Rule("WS405", "scale-disagrees-with-input", "error",
         "a value under `scale:` that contradicts the component's input"),
    Rule("WS406", "learning-rate-in-two-places", "warning",
         "different learning rates in the command and the DeepSpeed configuration", on=("Launch",),
         when="deepspeed", confidence="likely"),
)
