"""Batch sizes and world sizes in the flags of a command that are not those of the job."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.azureml import binding
from worldsize.azureml.launch import Launch
from worldsize.azureml.tree import Tree
from worldsize.base.problem import Finding
from worldsize.rules.shared import replicas as _replicas

_MICRO = (
    "micro_batch_size", "per_device_train_batch_size", "batch_size_per_device",
    "train_micro_batch_size_per_gpu", "per_gpu_train_batch_size", "batch_size_per_gpu",
)  # fmt: skip


def check_batch_flags_disagree(context: Tree, launch: Launch) -> Iterator[Finding]:
    flags = launch.flags("global_batch_size")
    whole, micro = _number(launch, "global_batch_size"), _number(launch, *_MICRO)
    if whole is None or micro is None or flags[0].value is None:
        return
    world, noun = _replicas.count_replicas(launch), "processes"
    if world is None:
        world, noun = _replicas.count_split_replicas(launch), "replicas"
    if world is None:
        return
    if all(_planned(launch, name) for name in ("global_batch_size", *_MICRO)):
        return  # the parts are the plan's: what contradicts them is another input, reported there
    span = launch.span(flags[0].value)
    steps = _number(launch, "gradient_accumulation_steps")
    if span is None or (launch.flags("gradient_accumulation_steps") and steps is None):
        return
    if steps is not None:
        if whole != micro * steps * world:
            product = micro * steps * world
            factors = f"{micro} per device × {steps} accumulation × {world} {noun}"
            message = f"the global batch is {whole}, but {factors} = {product}"
            yield Finding(span, message, f"write {product}")
    elif whole % (micro * world):
        below = whole // (micro * world) * micro * world
        near = " or ".join(str(number) for number in (below, below + micro * world) if number)
        factors = f"{micro} per device × {world} {noun} = {micro * world}"
        message = f"the global batch {whole} is not a multiple of {factors}"
        yield Finding(span, message, f"write {near}")


def _planned(launch: Launch, name: str) -> bool:
    """Whether a flag is absent or takes an input that the plan filled in."""
    for flag in launch.flags(name):
        expression = binding.parse_expression(flag.value.bare) if flag.value is not None else None
        port = expression.port if expression is not None and expression.scope == "inputs" else None
        field = launch.step.inputs.get(port or "")
        if field is None or field.span is not None:
            return False
    return True


def _number(launch: Launch, *names: str) -> int | None:
    """The whole number of a flag that occurs once."""
    flag = _replicas.read_flag(launch, *names)
    return int(flag[0]) if flag is not None and flag[0] == int(flag[0]) and flag[0] >= 1 else None


def check_world_size_flag_disagrees(context: Tree, launch: Launch) -> Iterator[Finding]:
    world, nodes = _replicas.count_processes(launch), launch.instances.value
    flag = _replicas.read_flag(launch, "world_size")
    if world is None or flag is None or flag[0] in (world, nodes) or flag[0] < 1:
        return
    span = launch.span(flag[1])
    if span is None:
        return
    product = f"{nodes} × {world // (nodes or 1)}"
    name = launch.flags("world_size")[0].word.text.partition("=")[0]
    message = f"`{name}` is {flag[0]:g} but {world} processes start ({product})"
    yield Finding(span, message, f"write {world}, or remove it and read `WORLD_SIZE`")
