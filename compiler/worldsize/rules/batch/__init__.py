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
    Entry("WS310", "deepspeed-batch-disagrees", on=("Job",), when="deepspeed"),
    Entry("WS311", "deepspeed-key-unknown", on=("Job",), when="deepspeed"),
    Entry("WS312", "deepspeed-value-invalid", on=("Job",), when="deepspeed"),
    Entry("WS313", "zero-stage-disagrees", on=("Job",), when="deepspeed"),
    Entry("WS314", "deepspeed-batch-missing", on=("Job",), when="deepspeed"),
    Entry("WS315", "deepspeed-key-refused", on=("Job",), when="deepspeed"),
    Entry("WS316", "deepspeed-wrong-type", on=("Job",), when="deepspeed"),
    Entry("WS317", "deepspeed-text-for-value", on=("Job",), when="deepspeed"),
    Entry("WS318", "deepspeed-auto-left", on=("Job",), when="deepspeed"),
    Entry("WS319", "deepspeed-made-twice", on=("Job",), when="deepspeed"),
    Entry("WS320", "memory-exceeded"),
    Entry("WS321", "memory-nearly-full"),
    Entry("WS340", "deepspeed-block-unused", on=("Job",), when="deepspeed"),
    Entry("WS341", "deepspeed-stage-refused", on=("Job",), when="deepspeed"),
    Entry("WS342", "deepspeed-offload-ignored", on=("Job",), when="deepspeed"),
    Entry("WS343", "deepspeed-precision-conflict", on=("Job",), when="deepspeed"),
    Entry("WS344", "deepspeed-loss-scale-invalid", on=("Job",), when="deepspeed"),
    Entry("WS345", "deepspeed-offload-path", on=("Job",), when="deepspeed"),
    Entry("WS346", "deepspeed-key-deprecated", on=("Job",), when="deepspeed"),
    Entry("WS347", "deepspeed-key-removed", on=("Job",), when="deepspeed"),
    Entry("WS348", "deepspeed-optimizer-refused", on=("Job",), when="deepspeed"),
    Entry("WS349", "deepspeed-schedule-refused", on=("Job",), when="deepspeed"),
    Entry("WS350", "deepspeed-plan-disagrees", on=("Job",), when="deepspeed"),
    Entry("WS351", "deepspeed-not-json", on=("Job",), when="deepspeed"),
    Entry("WS352", "deepspeed-json-lenient", on=("Job",), when="deepspeed"),
    Entry("WS353", "deepspeed-key-twice", on=("Job",), when="deepspeed"),
    Entry("WS354", "deepspeed-config-missing", on=("Job",), when="deepspeed"),
)
