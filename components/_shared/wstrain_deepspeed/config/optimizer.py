"""Checks of the blocks ``optimizer`` and ``scheduler``, and of those that the program makes itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wstrain_deepspeed.config.builder import TESTED_OPTIMIZERS
from wstrain_deepspeed.config.findings import (
    Finding,
    Known,
    Path,
    as_integer,
    as_json,
    block_at,
    is_on,
    read_stage,
    value_at,
)
from wstrain_deepspeed.config.schema import closest_word, read_tables

_ZERO_TAKES = {
    "adam",
    "adamw",
    "adagrad",
    "lion",
    "muon",
}  # DeepSpeed's own versions of these are on its list
_FORMER = {"onebitadam", "onebitlamb", "zerooneadam", "cpuadam", "fusedadam"}  # of older or other versions
_NUMBERS = ("lr", "weight_decay", "eps", "momentum")


def check_optimizer(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Check both blocks, by themselves and against what the program makes."""
    for name, is_made in (("optimizer", known.maker is not None), ("scheduler", known.schedules)):
        if config.get(name) is None or not is_made:
            continue
        thing = "optimizer" if name == "optimizer" else "schedule of the learning rate"
        if known.refuses:
            message = f"`{name}` is set here, but the training makes the {thing} itself"
            yield Finding("twice", (name,), message, "remove the block", on_key=True)
        else:
            message = f"`{name}` has no effect: the script hands an {thing} of its own to DeepSpeed"
            help_ = f"remove the block, or the {thing} of the script"
            yield Finding("unused", (name,), message.replace("an schedule", "a schedule"), help_, on_key=True)
    if known.maker:
        yield from _handed_over(config, known.maker)
    elif known.maker is None:
        yield from _optimizer(config)
    if not known.schedules:
        yield from _scheduler(config)


def _handed_over(config: Mapping[str, Any], name: str) -> Iterator[Finding]:
    """Check what DeepSpeed asserts of an optimizer that the program hands over."""
    zero = read_stage(config)
    if (
        zero
        and name.lower() not in TESTED_OPTIMIZERS
        and not is_on(config.get("zero_allow_untested_optimizer"))
    ):
        message = f"`{name}` was not tested with ZeRO, and DeepSpeed stops unless it is told to continue"
        is_set = "zero_allow_untested_optimizer" in config
        place: Path = ("zero_allow_untested_optimizer",) if is_set else ("zero_optimization", "stage")
        yield Finding("optimizer", place, message, 'write `"zero_allow_untested_optimizer": true`')
    device = value_at(config, "zero_optimization", "offload_optimizer", "device")
    if zero and device in ("cpu", "nvme") and config.get("zero_force_ds_cpu_optimizer", True) is not False:
        message = (
            "with `offload_optimizer` DeepSpeed refuses an optimizer of torch unless it is told to take it"
        )
        place = ("zero_optimization", "offload_optimizer", "device")
        yield Finding(
            "optimizer", place, message, 'write `"zero_force_ds_cpu_optimizer": false` at the top level'
        )


def _optimizer(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the optimizer that DeepSpeed is to make."""
    name = value_at(config, "optimizer", "type")
    params = block_at(config, "optimizer", "params")
    if "max_grad_norm" in params:
        message = "`max_grad_norm` is not a parameter of an optimizer, and DeepSpeed refuses it"
        place = ("optimizer", "params", "max_grad_norm")
        yield Finding("optimizer", place, message, "write `gradient_clipping` at the top level", on_key=True)
    yield from _params(params)
    if not isinstance(name, str) or name.lower() in _FORMER:
        return
    is_deepspeed = name.lower() in read_tables().optimizers
    if not is_deepspeed and name not in read_tables().torch_optimizers:
        near = closest_word(
            name, {*map(str.capitalize, read_tables().optimizers), *read_tables().torch_optimizers}
        )
        message = f"`{name}` is not an optimizer of DeepSpeed or torch"
        help_ = (
            f"did you mean `{near}`?" if near else "write `AdamW`, or hand your own to `deepspeed.initialize`"
        )
        yield Finding("optimizer", ("optimizer", "type"), message, help_)
    elif (
        read_stage(config)
        and name.lower() not in _ZERO_TAKES
        and not is_on(config.get("zero_allow_untested_optimizer"))
    ):
        message = f"`{name}` was not tested with ZeRO, and DeepSpeed stops unless it is told to continue"
        help_ = 'write `"zero_allow_untested_optimizer": true`, or use `AdamW`'
        yield Finding("optimizer", ("optimizer", "type"), message, help_)
    elif name.lower() == "lamb" and (scale := value_at(config, "fp16", "loss_scale")) not in (
        None,
        0,
        "auto",
    ):
        message = f"`{name}` needs a dynamic loss scale, but `loss_scale` is {as_json(scale)}"
        yield Finding("optimizer", ("fp16", "loss_scale"), message, "write 0")


def _params(params: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the parameters: torch refuses a text where it needs a number."""
    for name in _NUMBERS:
        value = params.get(name)
        if isinstance(value, str | bool) and value != "auto":
            message = f"`{name}` is {as_json(value)}, not a number"
            help_ = (
                "write the number without quotes" if value and str(value)[0].isdigit() else "write a number"
            )
            yield Finding("type", ("optimizer", "params", name), message, help_)
    betas = params.get("betas")
    if betas is not None and betas != "auto" and not _is_pair(betas):
        message = f"`betas` is {as_json(betas)}, not two numbers"
        yield Finding("type", ("optimizer", "params", "betas"), message, "write `[0.9, 0.999]`")


def _is_pair(betas: Any) -> bool:
    return (
        isinstance(betas, list)
        and len(betas) == 2
        and all(isinstance(beta, int | float | str) and beta != "" for beta in betas)
        and all(not isinstance(beta, str) or beta == "auto" for beta in betas)
    )


def _scheduler(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the schedule that DeepSpeed is to make: its name, and the parameters of DeepSpeed's own ones."""
    name = value_at(config, "scheduler", "type")
    if not isinstance(name, str):
        return
    schedules = read_tables().schedulers
    if name not in schedules:
        if name not in read_tables().torch_schedulers:
            near = closest_word(name, {*schedules, *read_tables().torch_schedulers})
            message = f"`{name}` is not a schedule of DeepSpeed or torch"
            help_ = f"did you mean `{near}`?" if near else f"write one of {', '.join(schedules)}"
            yield Finding("schedule", ("scheduler", "type"), message, help_)
        return
    params = value_at(config, "scheduler", "params")
    settings = params if isinstance(params, Mapping) else {}
    missing = [key for key, required in schedules[name].items() if required and key not in settings]
    if missing:
        message = f"`{name}` needs `{missing[0]}`, but `params` does not give it"
        yield Finding("schedule", ("scheduler", "type"), message, f"add `{missing[0]}`")
    for key in settings:
        if key not in schedules[name]:
            near = closest_word(key, schedules[name])
            help_ = f"did you mean `{near}`?" if near else "remove it"
            place = ("scheduler", "params", str(key))
            yield Finding("schedule", place, f"`{name}` has no parameter `{key}`", help_, on_key=True)
    steps = settings.get("warmup_num_steps")
    if steps is not None and steps != "auto" and (not isinstance(steps, int) or steps <= 0):
        number = "" if as_integer(steps) is None else " above 0"
        message = f"`warmup_num_steps` is {as_json(steps)}, not a whole number{number}"
        place = ("scheduler", "params", "warmup_num_steps")
        yield Finding("schedule", place, message, "write 1 for no warm-up, or the number of steps")
