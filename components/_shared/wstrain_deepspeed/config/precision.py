"""Checks of precision: fp16 or bf16 but not both, the loss scale, and the data types."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from wstrain_deepspeed.config.findings import (
    Finding,
    Known,
    Path,
    as_json,
    as_number,
    block_at,
    is_on,
    read_stage,
    value_at,
)

_NAMES = {"fp16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16", "bfloat16": "bf16",
          "fp32": "fp32", "float32": "fp32", "float": "fp32"}  # fmt: skip


def check_precision(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Check precision, by itself and against the plan."""
    half = is_on(value_at(config, "fp16", "enabled"))
    brain_name = "bf16" if config.get("bf16") is not None else "bfloat16"
    brain = is_on(value_at(config, brain_name, "enabled"))
    if half and brain:
        message = "`bf16` and `fp16` are both enabled, but DeepSpeed takes only one of them"
        related = ((("fp16", "enabled"), "the other"),)
        yield Finding(
            "precision", (brain_name, "enabled"), message, "set `enabled` of one to false", related=related
        )
        return
    yield from _loss_scale(config, enabled=half)
    if is_on(value_at(config, "bf16", "bf16_optimizer_states")) and not is_on(
        value_at(config, "bf16", "bf16_master_weights_and_grads")
    ):
        message = "`bf16_optimizer_states` needs `bf16_master_weights_and_grads`"
        help_ = 'add `"bf16_master_weights_and_grads": true`, or remove it'
        yield Finding("precision", ("bf16", "bf16_optimizer_states"), message, help_)
    name = "fp16" if half else "bf16" if brain else "fp32"
    autos = any(value_at(config, block_, "enabled") == "auto" for block_ in ("fp16", "bf16"))
    if not autos:
        yield from _types(config, name)
        yield from _planned(config, _autocast(config) or name, brain_name, known)


def _autocast(config: Mapping[str, Any]) -> str | None:
    """What torch's autocast computes in, where the configuration switches it on."""
    dtype = value_at(config, "torch_autocast", "dtype")
    if not is_on(value_at(config, "torch_autocast", "enabled")):
        return None
    return _NAMES.get(dtype) if isinstance(dtype, str) else "bf16"  # DeepSpeed's default


def _loss_scale(config: Mapping[str, Any], *, enabled: bool) -> Iterator[Finding]:
    """DeepSpeed checks the scale always, the window and the floor where the scale is dynamic."""
    fp16 = block_at(config, "fp16")
    scale = fp16.get("loss_scale", 0)
    number = as_number(scale)
    if number is not None and (number < 0 or not math.isfinite(number)):
        message = f"`loss_scale` is {as_json(scale)} but must be at least 0"
        yield _scale("loss_scale", message, "write 0 for a dynamic scale, or a power of two such as 1024")
    if not enabled or (number not in (0, None) and scale != "auto"):
        return
    for name in ("loss_scale_window", "min_loss_scale"):
        value = as_number(fp16.get(name))
        if value is not None and value <= 0:
            message = f"`{name}` is {as_json(fp16[name])}, and a dynamic loss scale needs more than 0"
            yield _scale(name, message, f"write {1000 if name == 'loss_scale_window' else 1}, the default")


def _scale(name: str, message: str, help_: str) -> Finding:
    return Finding("loss-scale", ("fp16", name), message, help_)


def _types(config: Mapping[str, Any], name: str) -> Iterator[Finding]:
    """``data_types`` against the precision that is enabled."""
    for key, stages in (("param_dtype", (0, 1, 2, 3)), ("grad_accum_dtype", (0,))):
        dtype = value_at(config, "data_types", key)
        wanted = _NAMES.get(dtype) if isinstance(dtype, str) else None
        if wanted is not None and wanted != name and read_stage(config) in stages:
            reason = "" if len(stages) > 1 else " without ZeRO"
            message = f"`{key}` is {as_json(dtype)}, and the precision is {name}"
            message += f", which DeepSpeed cannot mix{reason}"
            yield Finding("precision", ("data_types", key), message, f'write "{name}", or remove it')


def _planned(config: Mapping[str, Any], name: str, brain: str, known: Known) -> Iterator[Finding]:
    if known.precision is not None and name != known.precision:
        places: dict[str, Path] = {"fp16": ("fp16", "enabled"), "bf16": (brain, "enabled"), "fp32": ()}
        place = places[name]
        if name == "fp32":
            place = next(
                (p for p in (places["fp16"], places["bf16"]) if value_at(config, *map(str, p)) is not None),
                (),
            )
        message = f"the configuration trains in {name}, but the plan in {known.precision}"
        switch = f'`"{known.precision}": {{"enabled": true}}`'
        help_ = f"write {switch}, or plan with {name}" if known.precision != "fp32" else f"plan with {name}"
        yield Finding("plan", place, message, help_)
    clipping = as_number(config.get("gradient_clipping"))
    wanted = known.max_gradient_norm
    if clipping is not None and wanted is not None and clipping != wanted:
        message = f"`gradient_clipping` is {clipping:g}, but the plan's `max_gradient_norm` is {wanted:g}"
        yield Finding("plan", ("gradient_clipping",), message, f"write {wanted:g}, or leave it out")
