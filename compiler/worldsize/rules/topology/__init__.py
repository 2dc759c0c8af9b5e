"""WS2: VM sizes, processes, workers, instances."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS201", "vm-size-unknown"),
    Entry("WS202", "vm-size-retired"),
    Entry("WS203", "processes-exceed-gpus"),
    Entry("WS204", "processes-below-gpus"),
    Entry("WS205", "process-count-unknown"),
    Entry("WS206", "processes-without-distribution"),
    Entry("WS207", "tensorflow-one-process"),
    Entry("WS208", "worker-count-disagrees"),
    Entry("WS209", "instance-count-exceeds-max"),
    Entry("WS210", "vm-size-retiring"),
    Entry("WS211", "compute-conflict"),
    Entry("WS250", "distribution-field-of-other-type"),
)
