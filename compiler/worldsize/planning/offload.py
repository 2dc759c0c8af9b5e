"""What a step asks of ZeRO and cannot get: offload without its stage or its place, a loss scale without fp16.

``wstrain_deepspeed.config.builder`` refuses the same when the training starts.
"""

from __future__ import annotations

from worldsize.azureml import literals
from worldsize.planning import options
from worldsize.planning.interface import Interface
from worldsize.planning.notes import Notes
from worldsize.planning.numbers import show
from worldsize.spec.model import Step

_OFFLOADS = ("offload_optimizer", "offload_parameters")
_BY_CONFIG = (*_OFFLOADS, "offload_path", "loss_scale")  # what a configuration of the user's own decides


def check(step: Step, interface: Interface, notes: Notes) -> None:
    """Report what DeepSpeed would refuse, and what it would never look at.

    Args:
        step: the step.
        interface: its component.
        notes: collects the problems.
    """
    if "zero_stage" not in interface.inputs:
        return
    if "ds_config" in step.with_:
        for name in _BY_CONFIG:
            if name in step.with_:
                message = f"`{name}` changes nothing, as `ds_config` says what is offloaded and scaled"
                help_ = f"remove `{name}`, and say it in the configuration"
                notes.report("option-without-effect", step.with_[name].span, message, help_)
        return
    _stage(step, interface, notes)
    _path(step, interface, notes)
    _loss_scale(step, interface, notes)


def _stage(step: Step, interface: Interface, notes: Notes) -> None:
    """The stages that can offload: Ren et al. 2021 (arXiv:2101.06840), Rajbhandari et al. 2021."""
    stage = literals.number(options.value(step, interface, "zero_stage"))
    if stage is None:
        return
    for name in _OFFLOADS:
        device = options.value(step, interface, name)
        if device not in ("cpu", "nvme"):
            continue
        needed = 1 if name == "offload_optimizer" and device == "cpu" else 3
        if stage >= needed:
            continue
        stages = "3" if needed == 3 else "1, 2 or 3"
        message = f"`{name}: {device}` needs `zero_stage` {stages}, but it is {show(stage)}"
        help_ = f"write `zero_stage: {3 if needed == 3 else 2}`, or `{name}: none`"
        notes.report("strategy-option-refused", options.span(step, name), message, help_)
        return  # one stage mends both


def _path(step: Step, interface: Interface, notes: Notes) -> None:
    devices = {name: options.value(step, interface, name) for name in _OFFLOADS}
    path = options.value(step, interface, "offload_path")
    to_disk = [name for name, device in devices.items() if device == "nvme"]
    if to_disk and path == "":
        message = f"`{to_disk[0]}` is `nvme`, but no `offload_path` says where"
        help_ = "write `offload_path:`, a folder on a local disk of the instance such as `/mnt/offload`"
        notes.report("strategy-option-refused", options.span(step, to_disk[0]), message, help_)
    elif (
        path
        and "offload_path" in step.with_
        and all(device in ("none", "cpu") for device in devices.values())
    ):
        message = "`offload_path` changes nothing, as nothing is offloaded to `nvme`"
        help_ = "remove it, or write `offload_optimizer: nvme` with `zero_stage: 3`"
        notes.report("option-without-effect", step.with_["offload_path"].span, message, help_)


def _loss_scale(step: Step, interface: Interface, notes: Notes) -> None:
    scale = literals.number(options.value(step, interface, "loss_scale"))
    precision = options.value(step, interface, "precision")
    if scale and scale > 0 and precision in ("fp32", "bf16"):
        message = f"`loss_scale` is {show(scale)}, and only `fp16` scales the loss, not `{precision}`"
        help_ = "write `precision: fp16`, or remove `loss_scale`"
        notes.report("strategy-option-refused", options.span(step, "loss_scale"), message, help_)
