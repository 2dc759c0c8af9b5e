"""WS9: the training script that a command starts, read but never run."""

from __future__ import annotations

from functools import partial

from worldsize.rules.registry import Rule

_script_rule = partial(Rule, on=("Program",), when="script")
_likely_rule = partial(_script_rule, confidence="likely")
_late_rule = partial(_likely_rule, since="0.2.0")
_rank_rule = partial(_likely_rule, checked_in="_ranks")
_name_rule = partial(_script_rule, checked_in="_names")
_setting_rule = partial(_script_rule, checked_in="_library_settings", since="0.2.0")
_argument_rule = partial(_script_rule, checked_in="_arguments")
_loader_rule = partial(_script_rule, checked_in="_loaders")
_port_rule = partial(_late_rule, checked_in="_ports")
_ray_rule = partial(_late_rule, checked_in="_ray")
_file_rule = partial(_likely_rule, checked_in="_files")
_group_rule = partial(_script_rule, checked_in="_group")
_tensorflow_rule = partial(_likely_rule, checked_in="_tensorflow")

# One row a rule.
# fmt: off
RULES = (
    _group_rule("WS901", "no-process-group", "warning", "processes that never join a process group",
                confidence="possible"),
    _loader_rule("WS902", "sampler-without-set-epoch", "warning",
                 "a sampler that shuffles the same way in every epoch", confidence="likely"),
    _loader_rule("WS903", "no-distributed-sampler", "warning",
                 "a data loader that reads all rows on every rank", confidence="likely"),
    _file_rule("WS904", "saves-on-every-rank", "warning", "files saved or metrics logged on every rank"),
    _rank_rule("WS905", "local-rank-unused", "warning",
               "several processes per instance that all use one GPU"),
    _group_rule("WS906", "address-hard-coded", "warning",
                "an address or a number of processes hard-coded in the script", confidence="likely"),
    _rank_rule("WS907", "node-rank-from-process-rank", "error",
               "the rank of a process used as the rank of its node"),
    _file_rule("WS908", "load-without-map-location", "warning",
               "a checkpoint that every process loads onto one GPU", since="0.2.0"),
    _rank_rule("WS909", "global-rank-as-device", "error", "the rank in the whole job used as a GPU number",
               since="0.2.0"),
    _script_rule("WS910", "horovod-without-init", "error", "a Horovod call without `hvd.init()`",
                 checked_in="_averaging"),
    _likely_rule("WS911", "horovod-without-broadcast", "warning", "ranks that start with different weights",
                 checked_in="_averaging"),
    _likely_rule("WS912", "learning-rate-scaled-twice", "warning",
                 "a planned learning rate that the script scales again", checked_in="_averaging"),
    _late_rule("WS914", "script-needs-other-distribution", "error",
               "a script that reads what another type of `distribution` sets", checked_in="_group"),
    _late_rule("WS915", "gradients-never-averaged", "warning",
               "processes whose gradients are never averaged", checked_in="_averaging"),
    _late_rule("WS916", "collective-on-one-rank", "error",
               "a collective operation that not all processes reach", checked_in="_waiting"),
    _late_rule("WS917", "step-without-averaging", "error",
               "an optimizer step whose gradients all come from `no_sync()`", checked_in="_passes"),
    _late_rule("WS918", "accumulation-incomplete", "warning",
               "gradient accumulation that loses or repeats gradients", checked_in="_passes"),
    _late_rule("WS919", "loss-scaling-incomplete", "warning", "training in float16 without a scaled loss",
               checked_in="_passes"),
    _tensorflow_rule("WS920", "strategy-after-other-calls", "error",
                     "a strategy that is created after other TensorFlow calls"),
    _tensorflow_rule("WS921", "keras-fit-multi-worker", "warning",
                     "`model.fit` of Keras 3 with several workers"),
    _name_rule("WS922", "guard-never-set", "error", "a condition on a variable that nothing sets",
               confidence="likely"),
    _late_rule("WS923", "backward-past-library", "warning",
               "a `loss.backward()` that bypasses Accelerate or DeepSpeed", checked_in="_passes"),
    _late_rule("WS924", "optimizer-before-sharding", "error",
               "an optimizer made before the parameters are sharded", checked_in="_wrapping"),
    _late_rule("WS925", "changed-after-wrap", "error", "a model that is moved or changed after it is wrapped",
               checked_in="_wrapping"),
    _setting_rule("WS926", "lightning-counts-disagree", "error",
                  "`devices` or `num_nodes` of Lightning that differ from the job", confidence="likely"),
    _setting_rule("WS927", "trainer-arguments-disagree", "error",
                  "training arguments of Hugging Face that contradict each other"),
    _setting_rule("WS928", "accelerate-config-disagrees", "error",
                  "an Accelerate configuration for another number of machines or GPUs"),
    _loader_rule("WS929", "loader-options-exclusive", "error",
                 "options of a data loader that exclude each other", since="0.2.0"),
    _name_rule("WS930", "module-not-imported", "error", "a module that is used but not imported"),
    _script_rule("WS931", "working-folder-changed", "warning",
                 "a distributed script that changes its working folder", checked_in="_files",
                 confidence="possible"),
    _name_rule("WS932", "name-shadows-module", "error",
               "a file that hides an imported package of the same name", confidence="likely"),
    _argument_rule("WS933", "boolean-by-bool", "warning", "`type=bool`, which reads `False` as true"),
    _late_rule("WS934", "package-not-installed", "error", "a package that is imported but not installed",
               checked_in="_names"),
    _argument_rule("WS940", "argument-unknown", "error", "an argument that the script does not declare",
                   since="0.2.0"),
    _argument_rule("WS941", "argument-missing", "error", "a required argument that the command does not give",
                   since="0.2.0"),
    _argument_rule("WS942", "argument-invalid", "error",
                   "a value that an argument of the script does not accept", since="0.2.0"),
    _port_rule("WS943", "output-never-written", "warning",
               "an output that the script is given but never uses"),
    _rank_rule("WS944", "rank-not-unique", "error", "a rank that several processes share", since="0.2.0"),
    _late_rule("WS945", "spawn-in-every-process", "error",
               "a script that spawns processes, started once for each GPU", checked_in="_group"),
    _port_rule("WS946", "output-not-passed", "warning",
               "an output whose path the command does not pass to the script"),
    _port_rule("WS947", "input-not-passed", "warning",
               "an input that the command never passes to the script"),
    _late_rule("WS950", "precision-not-in-hardware", "warning", "a number format that the GPUs emulate",
               checked_in="_precision"),
    _late_rule("WS951", "kernels-not-for-gpu", "error",
               "a number format or kernel that the GPUs do not support", checked_in="_precision"),
    _late_rule("WS952", "model-outside-scope", "warning", "a model outside the scope of its strategy",
               checked_in="_tensorflow"),
    _file_rule("WS953", "saved-outside-outputs", "warning", "a model that is saved on the node and lost",
               since="0.2.0"),
    _late_rule("WS954", "stop-decided-per-process", "warning",
               "early stopping that each process decides by its own loss", checked_in="_waiting"),
    _ray_rule("WS955", "ray-workers-disagree", "error",
              "workers of Ray Train that do not fit the processes or GPUs of the job"),
    _ray_rule("WS956", "ray-instances-not-joined", "warning",
              "several instances for Ray Train that nothing joins to one cluster"),
    _ray_rule("WS957", "ray-model-not-prepared", "warning",
              "workers of Ray Train whose gradients nothing averages"),
    _late_rule("WS958", "loss-divided-by-weights", "warning",
               "a weighted mean that depends on how the global batch is divided", checked_in="_averaging"),
    _late_rule("WS959", "gate-overwritten", "warning",
               "a condition on a value that a constant has replaced", checked_in="_names"),
    Rule("WS960", "split-not-seeded", "warning", "a scheduled training that holds out other rows each time",
         on=("JobSchedule",), checked_in="_loaders", confidence="likely", since="0.2.0"),
)
