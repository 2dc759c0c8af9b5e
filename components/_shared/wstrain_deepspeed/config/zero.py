"""Checks of ZeRO: its stage, offload and its folder, and settings that belong to other stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wstrain_deepspeed.config.findings import (
    Finding,
    Known,
    Path,
    as_json,
    block_at,
    is_on,
    read_stage,
    value_at,
)

ZERO = "zero_optimization"


def check_zero(config: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """The settings of ``zero_optimization`` against its stage, and the stage against the plan's."""
    zero_stage = read_stage(config)
    if isinstance(config.get(ZERO), bool):
        message = f"`{ZERO}` as true or false is deprecated"
        yield Finding("deprecated", (ZERO,), message, f'write `{{"stage": {zero_stage}}}`')
    for name in ("offload_optimizer", "offload_param"):
        yield from _folder((ZERO, name), block_at(config, ZERO, name), known)
    if zero_stage not in (0, 1, 2, 3):
        return
    if known.stage is not None and zero_stage != known.stage:
        place = (
            (ZERO, "stage")
            if value_at(config, ZERO, "stage") is not None
            else (ZERO,)
            if ZERO in config
            else ()
        )
        message = f"the configuration asks for ZeRO stage {zero_stage}, but the plan for {known.stage}"
        yield Finding("plan", place, message, f"write {known.stage}, or plan with {zero_stage}")
        return
    yield from _ignored(config, zero_stage)
    yield from _refused(config, zero_stage)


def _ignored(config: Mapping[str, Any], zero_stage: int) -> Iterator[Finding]:
    """Offload below its stage: DeepSpeed starts, and offloads nothing."""
    related = _stage_place(config)
    for name, least in (("offload_param", 3), ("offload_optimizer", 1)):
        device = value_at(config, ZERO, name, "device")
        if device in ("cpu", "nvme") and zero_stage < least:
            needed = "3" if least == 3 else "1, 2 or 3"
            message = f"`{name}` needs ZeRO stage {needed}, but the stage is {zero_stage}"
            place = (ZERO, name, "device")
            help_ = f'write `"stage": {max(least, 3 if least == 3 else 2)}`, or remove `{name}`'
            yield Finding("stage-ignored", place, message, help_, related=related)


def _refused(config: Mapping[str, Any], zero_stage: int) -> Iterator[Finding]:
    """Settings for which DeepSpeed stops at any other stage."""
    zero = block_at(config, ZERO)
    ratio = value_at(config, ZERO, "offload_optimizer", "ratio")
    sums = str(config.get("gradient_allreduce_op", "mean")).lower() == "sum"
    cases: tuple[tuple[bool, Path, tuple[int, ...]], ...] = (
        (_below_one(ratio), (ZERO, "offload_optimizer", "ratio"), (3,)),
        (zero.get("compute_grad_norm") is False, (ZERO, "compute_grad_norm"), (1, 2)),
        (sums, ("gradient_allreduce_op",), (0, 1, 2)),
        (is_on(value_at(config, "fp16", "fp16_master_weights_and_grads")), _weights("fp16"), (1, 2, 3)),
        (is_on(value_at(config, "bf16", "bf16_master_weights_and_grads")), _weights("bf16"), (1, 2, 3)),
        (
            is_on(value_at(config, "bf16", "bf16_optimizer_states")),
            ("bf16", "bf16_optimizer_states"),
            (1, 2, 3),
        ),
    )
    for is_set, place, allowed in cases:
        if is_set and zero_stage not in allowed:
            stages = " or ".join(", ".join(map(str, allowed)).rsplit(", ", 1))
            message = f"`{place[-1]}` {as_json(value_at(config, *map(str, place)))} needs ZeRO stage {stages}"
            message += f", but the stage is {zero_stage}"
            help_ = f"remove `{place[-1]}`, or write a `stage` of {stages}"
            yield Finding("stage-refused", place, message, help_, related=_stage_place(config))


def _weights(name: str) -> Path:
    return (name, f"{name}_master_weights_and_grads")


def _below_one(ratio: object) -> bool:
    return isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 <= ratio < 1


def _stage_place(config: Mapping[str, Any]) -> tuple[tuple[Path, str], ...]:
    return (((ZERO, "stage"), "the stage"),) if value_at(config, ZERO, "stage") is not None else ()


def _folder(place: Path, offload: Mapping[str, Any], known: Known) -> Iterator[Finding]:
    """Where offload to a disk writes: DeepSpeed joins the path with names of its own, and makes it."""
    if offload.get("device") != "nvme":
        return
    path = offload.get("nvme_path")
    if path in (None, ""):
        message = f"`{place[-1]}` goes to nvme, but there is no `nvme_path`"
        help_ = 'add `"nvme_path"`, a folder on a local NVMe disk, or write `"device": "cpu"`'
        yield Finding("path", (*place, "device"), message, help_)
    elif not isinstance(path, str) or path == "auto":
        return
    elif not path.startswith("/"):
        message = f"`nvme_path` {as_json(path)} is relative to the job's working folder, not on an NVMe disk"
        yield Finding(
            "path", (*place, "nvme_path"), message, "write the absolute path of a folder on a local NVMe disk"
        )
    elif known.exists is not None and not known.exists(path):
        message = f"`nvme_path` {as_json(path)} does not exist on this machine"
        help_ = "write a folder of a local disk; DeepSpeed would make this one on the system disk"
        yield Finding("path", (*place, "nvme_path"), message, help_)
