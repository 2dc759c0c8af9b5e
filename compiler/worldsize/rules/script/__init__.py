"""WS9: the training script that a command names, read as text and never run."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS901", "no-process-group", on=("Job", "Component"), when="script"),
    Entry("WS902", "sampler-without-set-epoch", on=("Job", "Component"), when="script"),
    Entry("WS903", "no-distributed-sampler", on=("Job", "Component"), when="script"),
    Entry("WS904", "saves-on-every-rank", on=("Job", "Component"), when="script"),
    Entry("WS905", "local-rank-unused", on=("Job", "Component"), when="script"),
    Entry("WS906", "address-hard-coded", on=("Job", "Component"), when="script"),
    Entry("WS907", "node-rank-from-process-rank", on=("Job", "Component"), when="script"),
    Entry("WS910", "horovod-without-init", on=("Job", "Component"), when="script"),
    Entry("WS911", "horovod-without-broadcast", on=("Job", "Component"), when="script"),
    Entry("WS912", "learning-rate-scaled-twice", on=("Job", "Component"), when="script"),
    Entry("WS920", "strategy-after-other-calls", on=("Job", "Component"), when="script"),
    Entry("WS921", "keras-fit-multi-worker", on=("Job", "Component"), when="script"),
    Entry("WS922", "guard-never-set", on=("Job", "Component"), when="script"),
    Entry("WS930", "module-not-imported", on=("Job", "Component"), when="script"),
    Entry("WS931", "working-folder-changed", on=("Job", "Component"), when="script"),
    Entry("WS932", "name-shadows-module", on=("Job", "Component"), when="script"),
    Entry("WS933", "boolean-by-bool", on=("Job", "Component"), when="script"),
)
