"""Builds the configuration of DeepSpeed from the numbers of a plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PRECISIONS = ("fp32", "bf16", "fp16")
DEVICES = ("none", "cpu", "nvme")
TESTED_OPTIMIZERS = ("adam", "adamw", "adagrad")
"""Optimizers of torch that ZeRO accepts without a switch; see ``ZERO_SUPPORTED_OPTIMIZERS`` of DeepSpeed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The numbers of a training, as the plan has them.

    ``micro_batch`` samples at once in a process, ``accumulation`` of these a step, ``world_size`` processes.
    ``loss_scale`` 0 is dynamic. ``offload_path`` is a folder of a local disk, for ``nvme``.
    ``bucket_elements`` bounds what is reduced or gathered at once; DeepSpeed's own 5e8 take 2 GB in fp32.
    """

    micro_batch: int
    accumulation: int = 1
    world_size: int = 1
    zero_stage: int = 2
    precision: str = "fp32"
    loss_scale: float = 0.0
    max_gradient_norm: float = 0.0
    optimizer: str = "adamw"
    offload_optimizer: str = "none"
    offload_parameters: str = "none"
    offload_path: str = ""
    activation_checkpointing: bool = False
    bucket_elements: int = 50_000_000

    @property
    def global_batch(self) -> int:
        """Samples a step, ``G = b·a·W``."""
        return self.micro_batch * self.accumulation * self.world_size


def build_config(plan: Plan) -> dict[str, Any]:
    """Return the configuration for ``deepspeed.initialize``.

    The program makes the optimizer and sets the learning rate of every step itself, so neither is in it.
    Switches without which DeepSpeed would not start are set where the plan implies them: for an optimizer
    that ZeRO was not tested with, and for one of torch's under offload.

    Raises:
        ValueError: The settings contradict each other; the text says which and how.
    """
    faults = [f"{name} must be at least 1, got {value}" for name, value in _counts(plan) if value < 1]
    faults += list(_faults(plan))
    if faults:
        raise ValueError("; ".join(faults))
    config: dict[str, Any] = {
        "train_batch_size": plan.global_batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.accumulation,
        "zero_optimization": _zero(plan),
    }
    # Written even if it is off, as DeepSpeed clips to 1 by default.
    config["gradient_clipping"] = float(plan.max_gradient_norm)
    config |= _arithmetic(plan)
    if plan.activation_checkpointing:
        config["activation_checkpointing"] = {"partition_activations": False, "cpu_checkpointing": False}
    if plan.zero_stage and plan.optimizer not in TESTED_OPTIMIZERS:
        config["zero_allow_untested_optimizer"] = True
    if plan.offload_optimizer != "none":
        config["zero_force_ds_cpu_optimizer"] = False
    return config


def _arithmetic(plan: Plan) -> dict[str, Any]:
    if plan.precision == "fp32":
        return {}
    if plan.zero_stage == 0:
        # Without ZeRO, DeepSpeed's own 16-bit optimizer takes a step before the first one; autocast does not.
        dtype = "bfloat16" if plan.precision == "bf16" else "float16"
        return {"torch_autocast": {"enabled": True, "dtype": dtype}}
    if plan.precision == "bf16":
        return {"bf16": {"enabled": True}}
    return {"fp16": {"enabled": True, "loss_scale": plan.loss_scale}}


def to_json(config: Mapping[str, Any]) -> str:
    """Return the text of ``ds_config.json``, the same for the same settings."""
    return json.dumps(config, indent=2) + "\n"


def _counts(plan: Plan) -> tuple[tuple[str, int], ...]:
    return (
        ("micro_batch", plan.micro_batch),
        ("accumulation", plan.accumulation),
        ("world_size", plan.world_size),
        ("bucket_elements", plan.bucket_elements),
    )


def _faults(plan: Plan) -> list[str]:
    """Return every contradiction, so that all can be corrected at once."""
    offload = plan.offload_optimizer, plan.offload_parameters
    checks = (
        (plan.zero_stage in (0, 1, 2, 3), f"zero_stage is {plan.zero_stage}, and ZeRO has the stages 0 to 3"),
        (plan.precision in PRECISIONS, f"precision is {plan.precision}, not one of {', '.join(PRECISIONS)}"),
        (
            0 <= plan.loss_scale < float("inf"),
            f"loss_scale is {plan.loss_scale:g}, not a number of at least 0",
        ),
        (
            plan.loss_scale == 0 or plan.precision == "fp16",
            f"loss_scale is {plan.loss_scale:g}, and only fp16 scales the loss, not {plan.precision}",
        ),
        (plan.max_gradient_norm >= 0, f"max_gradient_norm is {plan.max_gradient_norm:g}, below 0"),
        (set(offload) <= set(DEVICES), f"offload is {' and '.join(offload)}, each must be none, cpu or nvme"),
        (
            plan.offload_optimizer == "none" or plan.zero_stage > 0,
            f"offload_optimizer {plan.offload_optimizer} needs zero_stage 1, 2 or 3, not {plan.zero_stage}",
        ),
        (
            plan.offload_parameters == "none" or plan.zero_stage == 3,
            f"offload_parameters {plan.offload_parameters} needs zero_stage 3, not {plan.zero_stage}",
        ),
        (
            "nvme" not in offload or plan.zero_stage == 3,
            f"offload to nvme needs zero_stage 3, not {plan.zero_stage}",
        ),
        ("nvme" not in offload or plan.offload_path != "", "offload to nvme needs offload_path"),
    )
    return [message for holds, message in checks if not holds]


def _zero(plan: Plan) -> dict[str, Any]:
    zero: dict[str, Any] = {"stage": plan.zero_stage}
    if plan.zero_stage:
        zero |= {"reduce_bucket_size": plan.bucket_elements, "allgather_bucket_size": plan.bucket_elements}
    if plan.zero_stage == 3:
        zero["stage3_prefetch_bucket_size"] = plan.bucket_elements
    for key, device in (
        ("offload_optimizer", plan.offload_optimizer),
        ("offload_param", plan.offload_parameters),
    ):
        if device != "none":
            zero[key] = {"device": device} | ({"nvme_path": plan.offload_path} if device == "nvme" else {})
    return zero
