"""How many processes share a global batch."""

from __future__ import annotations

from worldsize.azureml.launch import Launch, find_inner_launchers
from worldsize.rules.topology import _degrees

_SPLITS_OTHERWISE = ("model_parallel_size", "context_parallel_size", "expert_parallel_size")
_SPLITS_MODEL = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "tp_size", "pp_size",
    "tensor_parallel_size", "pipeline_parallel_size", *_SPLITS_OTHERWISE,
)  # fmt: skip


def count_replicas(launch: Launch) -> int | None:
    """The processes that share a batch; None where they are unknown or the model itself is split."""
    if any(launch.number(flag) != 1 for flag in launch.flags(*_SPLITS_MODEL)):
        return None
    return count_processes(launch)


def count_processes(launch: Launch) -> int | None:
    """All processes of a step, also those that a launcher in its command starts; None where unknown."""
    inner = list(find_inner_launchers(launch))
    if len(inner) > 1 or any(each.starts is None for each in inner):
        return None
    outer = launch.world
    if launch.kind is None and launch.instances.value == 1:
        outer = 1
    return outer * (inner[0].starts or 1) if inner and outer is not None else outer


def count_split_replicas(launch: Launch) -> int | None:
    """The replicas of a model that tensor and pipeline degrees split; None where it is split otherwise."""
    degrees, world = _degrees.read_degrees(launch), launch.world
    if degrees is None or world is None or world % degrees.product:
        return None
    if any(launch.number(flag) != 1 for flag in launch.flags(*_SPLITS_OTHERWISE)):
        return None
    return world // degrees.product
