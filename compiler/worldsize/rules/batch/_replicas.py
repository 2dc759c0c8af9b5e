"""How many processes share a global batch."""

from __future__ import annotations

from worldsize.rules.launch import Launch
from worldsize.rules.topology import _launchers

_SPLITS_MODEL = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "model_parallel_size", "tp_size", "pp_size",
    "tensor_parallel_size", "pipeline_parallel_size", "context_parallel_size", "expert_parallel_size",
)  # fmt: skip


def replicas(found: Launch) -> int | None:
    """The processes that share a batch; None where they are unknown or the model itself is split."""
    if any(found.number(flag) != 1 for flag in found.flags(*_SPLITS_MODEL)):
        return None
    inner = list(_launchers.inside(found))
    if len(inner) > 1 or any(each.starts is None for each in inner):
        return None
    outer = found.world
    if found.kind is None and found.instances.value == 1:
        outer = 1
    return outer * (inner[0].starts or 1) if inner and outer is not None else outer
