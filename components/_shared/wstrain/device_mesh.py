"""The mesh of :mod:`wstrain.mesh` as ``torch.distributed`` knows it: a process group for each of its rows."""

from __future__ import annotations

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from wstrain.process_group import Group

PIPELINE, DATA, TENSOR = "pipeline", "data", "tensor"


def device_mesh(group: Group) -> DeviceMesh:
    """Return the mesh ``[pipeline, data, tensor]`` of all ranks, with the tensor dimension innermost.

    A strategy makes it once and takes its dimensions from it, ``mesh[DATA]`` and ``mesh[TENSOR]``: only parts
    of one mesh can split the same tensor, each in its own way.

    Raises:
        ValueError: there is one rank, which has no process group and nothing to split.
    """
    if group.launch.world_size == 1:
        raise ValueError("a single process has no mesh")
    shape = (group.mesh.pipeline, group.mesh.data, group.mesh.tensor)
    return init_device_mesh(group.device.type, shape, mesh_dim_names=(PIPELINE, DATA, TENSOR))
