"""The inputs that a plan fills, and what they are without one: a component in the designer has no planner."""

from __future__ import annotations

import argparse
from typing import Any

from wstrain import scaling
from wstrain.input_types import integer, number

REFERENCE_BATCH = 32  # samples per step that the default learning rates are for
_LINEAR = ("sgd", "lars")  # Goyal et al. 2017, You et al. 2017; the others follow Malladi et al. 2022
# For `REFERENCE_BATCH`. LARS makes each layer's step a thousandth of its weights, times the rate.
_DEFAULT_RATES = {"sgd": 0.05, "lars": 1.0}
_OTHER_RATE = 1e-3  # of Adam's family, as in Kingma and Ba 2015

# What the planner has to know as well. Strategies whose ranks compute whole layers by torch alone:
COMPILED = ("ddp", "fsdp", "horovod")
# From this training time on compiling pays: it takes a minute and a half for a transformer of some dozen
# blocks, and saves 13.6 % of each step (torchtitan, Llama 3.1 8B on H100: 6,667 tokens/s instead of 5,762).
COMPILE_PAYS_SECONDS = 660.0


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the inputs that a plan fills."""
    add = parser.add_argument
    add("--world_size", type=integer(0), default=0)
    add("--batch_size_per_device", type=integer(1), default=32)
    add("--gradient_accumulation_steps", type=integer(0), default=0)
    add("--global_batch_size", type=integer(0), default=0)
    add("--learning_rate", type=number(0), default=0.0)
    add("--reference_learning_rate", type=number(0, above=True))
    add("--reference_batch_size", type=integer(1))
    add("--learning_rate_rule", choices=("auto", *scaling.RULES), default="auto")
    add("--warmup_epochs", type=number(0))
    add("--predicted_memory_bytes", type=integer(1))
    add("--planned_gpus_per_instance", type=number(0))
    add("--planned_instance_type")
    add("--predicted_samples_per_second", type=number(0, above=True))
    add("--predicted_samples_per_second_low", type=number(0, above=True))
    add("--predicted_samples_per_second_high", type=number(0, above=True))
    add("--predicted_cluster")
    add("--hang_timeout", type=number(0), default=0.0)


def complete_plan(values: dict[str, Any], started: int) -> None:
    """Derive what a plan would have given: world size, batches, learning rate and warm-up.

    Args:
        values: the inputs by name, which are changed.
        started: ranks or replicas that the launcher started.

    Raises:
        UserError: the replicas cannot share the global batch equally.
    """
    values["world_size"] = values["world_size"] or started
    split = values["tensor_parallel_size"] * values["pipeline_parallel_size"]
    # With parameter servers each worker updates on its own, so its batch is the global batch.
    replicas = 1 if values["strategy"] == "parameter_server" else max(1, values["world_size"] // split)
    batches = scaling.complete_batches(
        values["batch_size_per_device"],
        values["gradient_accumulation_steps"],
        values["global_batch_size"],
        replicas,
    )
    values |= {
        "batch_size_per_device": batches.per_device,
        "gradient_accumulation_steps": batches.accumulation,
        "global_batch_size": batches.global_batch,
    }
    _complete_rates(values)


def _complete_rates(values: dict[str, Any]) -> None:
    derived = not values["learning_rate"]
    rule = values["learning_rate_rule"]
    if rule == "auto":
        rule = "linear" if values["optimizer"] in _LINEAR else "sqrt"
    reference, reference_batch = values["reference_learning_rate"], values["reference_batch_size"]
    if derived:
        reference = reference or _DEFAULT_RATES.get(values["optimizer"], _OTHER_RATE)
        reference_batch = reference_batch or REFERENCE_BATCH
    global_batch = values["global_batch_size"]
    rates = scaling.complete_rates(values["learning_rate"], reference, rule, global_batch, reference_batch)
    if values["warmup_epochs"] is None:
        kappa = global_batch / reference_batch if derived else 1.0
        values["warmup_epochs"] = scaling.default_warmup_epochs(rule, kappa, values["epochs"])
    values |= {
        "learning_rate": rates.peak,
        "reference_learning_rate": rates.reference,
        "reference_batch_size": reference_batch,
        "learning_rate_rule": rule,
    }
