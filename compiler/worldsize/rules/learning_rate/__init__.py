"""WS4: scaling of the learning rate and warm-up."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS401", "optimizer-unknown"),
    Entry("WS402", "learning-rate-disagrees"),
    Entry("WS403", "sqrt-rule-out-of-range"),
    Entry("WS404", "warmup-longer-than-training"),
    Entry("WS405", "scale-disagrees-with-input"),
    Entry("WS406", "learning-rate-in-two-places", on=("Job",), when="deepspeed"),
)
