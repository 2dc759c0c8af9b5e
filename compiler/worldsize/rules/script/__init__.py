"""WS9: the training script that a command starts, read but never run."""

from __future__ import annotations

from worldsize.rules.rule import Rule

# One row a rule.
# fmt: off
RULES = (
    Rule("WS901", "no-process-group", "warning", "processes that never join a process group",
         on=("Program",), when="script"),
    Rule("WS902", "sampler-without-set-epoch", "warning",
         "a sampler that shuffles the same way in every epoch", on=("Program",), when="script"),
    Rule("WS903", "no-distributed-sampler", "warning", "a data loader that reads all rows on every rank",
         on=("Program",), when="script"),
    Rule("WS904", "saves-on-every-rank", "warning", "files saved or metrics logged on every rank",
         on=("Program",), when="script"),
    Rule("WS905", "local-rank-unused", "warning", "several processes per instance that all use one GPU",
         on=("Program",), when="script"),
    Rule("WS906", "address-hard-coded", "warning",
         "an address or a number of processes hard-coded in the script", on=("Program",), when="script"),
    Rule("WS907", "node-rank-from-process-rank", "error",
         "the rank of a process used as the rank of its node", on=("Program",), when="script"),
    Rule("WS910", "horovod-without-init", "error", "a Horovod call without `hvd.init()`",
         on=("Program",), when="script"),
    Rule("WS911", "horovod-without-broadcast", "warning", "ranks that start with different weights",
         on=("Program",), when="script"),
    Rule("WS912", "learning-rate-scaled-twice", "warning",
         "a planned learning rate that the script scales again", on=("Program",), when="script"),
    Rule("WS920", "strategy-after-other-calls", "error",
         "a strategy that is created after other TensorFlow calls", on=("Program",), when="script"),
    Rule("WS921", "keras-fit-multi-worker", "warning", "`model.fit` of Keras 3 with several workers",
         on=("Program",), when="script"),
    Rule("WS922", "guard-never-set", "error", "a condition on a variable that nothing sets",
         on=("Program",), when="script"),
    Rule("WS930", "module-not-imported", "error", "a module that is used but not imported",
         on=("Program",), when="script"),
    Rule("WS931", "working-folder-changed", "warning", "a distributed script that changes its working folder",
         on=("Program",), when="script"),
    Rule("WS932", "name-shadows-module", "error", "a file that hides an imported package of the same name",
         on=("Program",), when="script"),
    Rule("WS933", "boolean-by-bool", "warning", "`type=bool`, which reads `False` as true",
         on=("Program",), when="script"),
    Rule("WS940", "argument-unknown", "error", "an argument that the script does not declare",
         on=("Program",), when="script", checked_in="_arguments", since="0.2.0"),
    Rule("WS941", "argument-missing", "error", "a required argument that the command does not give",
         on=("Program",), when="script", checked_in="_arguments", since="0.2.0"),
    Rule("WS942", "argument-invalid", "error", "a value that an argument of the script does not accept",
         on=("Program",), when="script", checked_in="_arguments", since="0.2.0"),
)
