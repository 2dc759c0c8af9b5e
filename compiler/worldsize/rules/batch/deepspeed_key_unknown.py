"""A key of the DeepSpeed configuration is nearly one that DeepSpeed knows.

DeepSpeed ignores keys that it does not know.

Why: the setting is not made, and nothing says so.

Bad::

    "zero_optimisation": {"stage": 1}

Good::

    "zero_optimization": {"stage": 1}

Fix: write the key of the help.

Source: DeepSpeed, configuration JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml.model import Job
from worldsize.diagnostics.problem import Fix, Problem
from worldsize.diagnostics.suggest import closest
from worldsize.rules import launch
from worldsize.rules.batch import _deepspeed
from worldsize.rules.context import Context
from worldsize.rules.rule import Rule

RULE = Rule(
    "WS311",
    "deepspeed-key-unknown",
    "warning",
    since="0.1.0",
    summary="a misspelt key of the DeepSpeed configuration",
)


_KEYS = frozenset(
    [
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "optimizer",
        "scheduler",
        "fp16",
        "bf16",
        "amp",
        "zero_optimization",
        "gradient_clipping",
        "prescale_gradients",
        "gradient_predivide_factor",
        "sparse_gradients",
        "communication_data_type",
        "steps_per_print",
        "wall_clock_breakdown",
        "dump_state",
        "zero_allow_untested_optimizer",
        "zero_force_ds_cpu_optimizer",
        "activation_checkpointing",
        "flops_profiler",
        "autotuning",
        "comms_logger",
        "tensorboard",
        "wandb",
        "csv_monitor",
        "elasticity",
        "curriculum_learning",
        "data_efficiency",
        "compression_training",
        "checkpoint",
        "data_types",
        "aio",
        "pipeline",
        "sparse_attention",
        "progressive_layer_drop",
        "eigenvalue",
        "quantize_training",
        "memory_breakdown",
        "comms",
        "disable_allgather",
        "seq_parallel_communication_data_type",
        "tensor_parallel",
        "hybrid_engine",
        "inference",
    ]
)


@RULE.checks(Job)
def check(context: Context, job: Job) -> Iterator[Problem]:
    for found in launch.of(context, job):
        for root in _deepspeed.configs(context, found):
            for key, _ in root.entries:
                near = None if key.text in _KEYS else closest(key.text, _KEYS)
                if near is not None:
                    message = f"`{key.text}` is no key of DeepSpeed, which ignores it"
                    fix = Fix(key.span, f'"{near}"')
                    yield RULE.problem(key.span, message, f"did you mean `{near}`?", fix=fix)
