"""WS3: batch sizes, DeepSpeed configurations and memory."""

from __future__ import annotations

from functools import partial

from worldsize.rules.rule import Rule

# What one look at a DeepSpeed configuration finds, in `_deepspeed.py`.
_config_rule = partial(Rule, on=("Job",), when="deepspeed", checked_in="_deepspeed")

# One row a rule.
# fmt: off
RULES = (
    Rule("WS301", "global-batch-does-not-factor", "error",
         "a pinned global batch that cannot be divided equally among the processes"),
    Rule("WS302", "batch-identity", "error", "pinned batch sizes that contradict each other"),
    Rule("WS303", "reference-batch-does-not-divide", "error",
         "a reference batch that is not a multiple of the reference GPUs"),
    Rule("WS304", "micro-batch-small", "warning", "a global batch that leaves many small micro-batches"),
    Rule("WS305", "kappa-below-one", "info", "a global batch smaller than the reference batch"),
    Rule("WS306", "rows-fewer-than-global-batch", "error", "fewer training rows than one global batch"),
    Rule("WS307", "training-shorter-than-one-step", "error", "training shorter than one optimizer step"),
    Rule("WS308", "world-size-flag-disagrees", "warning",
         "a world size in the command that differs from the number of processes", on=("Launch",)),
    Rule("WS309", "batch-flags-disagree", "error",
         "a global batch in the command that is not the product of its parts", on=("Launch",)),
    _config_rule("WS310", "deepspeed-batch-disagrees", "error",
                 "a DeepSpeed batch size that is not the product of its parts"),
    _config_rule("WS311", "deepspeed-key-unknown", "warning",
                 "a key of the DeepSpeed configuration that DeepSpeed ignores"),
    _config_rule("WS312", "deepspeed-value-invalid", "error",
                 "a DeepSpeed value that is out of range or not allowed"),
    Rule("WS313", "zero-stage-disagrees", "warning",
         "different ZeRO stages in the command and the DeepSpeed configuration",
         on=("Job",), when="deepspeed"),
    _config_rule("WS314", "deepspeed-batch-missing", "error",
                 "a DeepSpeed configuration without a batch size"),
    _config_rule("WS315", "deepspeed-key-refused", "error", "a key that DeepSpeed refuses"),
    _config_rule("WS316", "deepspeed-wrong-type", "error", "a DeepSpeed value of the wrong type"),
    _config_rule("WS317", "deepspeed-text-for-value", "warning", "a DeepSpeed boolean or number in quotes"),
    _config_rule("WS318", "deepspeed-auto-left", "error",
                 "`auto` in a DeepSpeed configuration that nothing replaces with a value"),
    _config_rule("WS319", "deepspeed-made-twice", "error",
                 "an optimizer or schedule in both the DeepSpeed configuration and the script"),
    Rule("WS320", "memory-exceeded", "error", "training that needs more memory than a process has",
         on=("Job",), checked_in="_memory"),
    Rule("WS321", "memory-nearly-full", "warning", "training that needs nearly all the memory of a process",
         on=("Job",), checked_in="_memory"),
    _config_rule("WS340", "deepspeed-block-unused", "warning",
                 "an optimizer or schedule in the DeepSpeed configuration that has no effect"),
    _config_rule("WS341", "deepspeed-stage-refused", "error",
                 "a DeepSpeed setting that the ZeRO stage does not support"),
    _config_rule("WS342", "deepspeed-offload-ignored", "warning",
                 "a DeepSpeed offload that the ZeRO stage does not support"),
    _config_rule("WS343", "deepspeed-precision-conflict", "error",
                 "two precisions in a DeepSpeed configuration"),
    _config_rule("WS344", "deepspeed-loss-scale-invalid", "error",
                 "a DeepSpeed loss scale that is not valid"),
    _config_rule("WS345", "deepspeed-offload-path", "error",
                 "offload to a disk without the path of a folder"),
    _config_rule("WS346", "deepspeed-key-deprecated", "warning", "a deprecated DeepSpeed key"),
    _config_rule("WS347", "deepspeed-key-removed", "warning", "a DeepSpeed key whose feature was removed"),
    _config_rule("WS348", "deepspeed-optimizer-refused", "error", "an optimizer that DeepSpeed refuses"),
    _config_rule("WS349", "deepspeed-schedule-refused", "error",
                 "a DeepSpeed learning rate schedule that cannot be created"),
    _config_rule("WS350", "deepspeed-plan-disagrees", "error",
                 "a DeepSpeed configuration that contradicts the plan"),
    _config_rule("WS351", "deepspeed-not-json", "error", "a DeepSpeed configuration that is not JSON"),
    _config_rule("WS352", "deepspeed-json-lenient", "warning",
                 "a comment or trailing comma in a DeepSpeed configuration"),
    _config_rule("WS353", "deepspeed-key-twice", "error",
                 "a key that appears twice in a DeepSpeed configuration"),
    Rule("WS354", "deepspeed-config-missing", "warning", "a DeepSpeed configuration file that does not exist",
         on=("Job",), when="deepspeed"),
)
