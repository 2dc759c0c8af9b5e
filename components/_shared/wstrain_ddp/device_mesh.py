"""The mesh of :mod:`wstrain.launch.mesh` for ``torch.distributed``: a process group for each of its rows."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from wstrain_torch.launch.process_group import Group

PIPELINE, DATA, TENSOR = "pipeline", "data", "tensor"


def make_device_mesh(group: Group) -> DeviceMesh:
    """Return the mesh ``[pipeline, data, tensor]`` of all ranks, with the tensor dimension innermost.

    A strategy makes it once and takes its dimensions from it, ``mesh[DATA]`` and ``mesh[TENSOR]``: only parts
    of one mesh can split the same tensor, each in its own way. A single process becomes a group of one, so
    that what is true of many ranks (where tensors are kept, how they are saved) is true of one.
    """
    if group.launch.world_size == 1 and not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if group.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    shape = (group.mesh.pipeline, group.mesh.data, group.mesh.tensor)
    return init_device_mesh(group.device.type, shape, mesh_dim_names=(PIPELINE, DATA, TENSOR))
