"""WS3: micro-batch, accumulation and global batch."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS301", "global-batch-does-not-factor"),
    Entry("WS302", "batch-identity"),
    Entry("WS303", "reference-batch-does-not-divide"),
    Entry("WS304", "micro-batch-small"),
    Entry("WS305", "kappa-below-one"),
    Entry("WS306", "rows-fewer-than-global-batch"),
    Entry("WS307", "training-shorter-than-one-step"),
    Entry("WS308", "world-size-flag-disagrees", on=("Job",)),
    Entry("WS309", "batch-flags-disagree", on=("Job",)),
    Entry("WS310", "deepspeed-batch-disagrees", on=("Job",)),
    Entry("WS311", "deepspeed-key-unknown", on=("Job",)),
    Entry("WS312", "deepspeed-value-invalid", on=("Job",)),
    Entry("WS313", "zero-stage-disagrees", on=("Job",)),
)
