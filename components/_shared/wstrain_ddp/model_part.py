"""A rank's part of a model that is divided over ranks: mesh, update, state, and the gathered model."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from wstrain_ddp.gradients import average_gradients, clip_gradients
from wstrain_torch.checkpoint import tensor_state
from wstrain_torch.launch.process_group import Group
from wstrain_torch.strategies import TorchStrategy, UpdateSettings

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


class ModelPart(TorchStrategy):
    """A strategy whose rank has the layers of one pipeline stage, perhaps divided over the tensor dimension.

    Args:
        module: this rank's part, in which everything has the name that it has in the whole model.
        plain: the whole model without weights.
        updates: how gradients become updates.
        mesh: ``[pipeline, data, tensor]``.
    """

    sharded = True

    def __init__(
        self, module: nn.Module, plain: nn.Module, updates: UpdateSettings, mesh: DeviceMesh
    ) -> None:
        super().__init__(module, updates)
        self._plain, self._mesh = plain, mesh
        self._trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        self._device = self._trained[0].device

    def _average_gradients(self) -> None:
        average_gradients(self._trained, self._mesh[DATA].get_group())

    def state(self) -> dict[str, Tensor]:
        """This rank's part, by name."""
        self._before_save()
        return tensor_state.collect_tensors(self._module, self._optimizer, self._scaler)

    def load(self, state: tensor_state.StoredTensors) -> None:
        """Fill this rank's part."""
        tensor_state.restore_tensors(state, self._module, self._optimizer, self._scaler)
        self._after_load()

    def whole_model(self) -> nn.Module:
        """Put the weights of all parts into a plain copy of the model, in rank 0's memory."""
        self._take_average()
        if self._mesh.get_local_rank(DATA) == 0:  # other replicas have the same
            weights = self._gather()
            if dist.get_rank() == 0:
                self._plain.load_state_dict(weights, assign=True)
        return self._plain

    def _clip(self) -> None:
        clip_gradients(self._trained, self._max_norm, self._mesh[PIPELINE].get_group())

    def _gather(self) -> dict[str, Tensor]:
        """Send each stage's weights to the first stage, one after the other."""
        line = self._mesh[PIPELINE].get_group()
        state = self._module.state_dict()
        shapes = [(name, tensor.shape, tensor.dtype) for name, tensor in state.items()]
        stages: list[list[tuple[str, torch.Size, torch.dtype]]] = [shapes] * line.size()
        dist.all_gather_object(stages, shapes, group=line)
        weights: dict[str, Tensor] = {}
        for stage, names in enumerate(stages):
            for name, shape, dtype in names:
                tensor = _whole(state[name]) if stage == line.rank() else None
                if self._mesh.get_local_rank(TENSOR) > 0:
                    continue  # its neighbour has the same
                if line.rank() == 0:
                    weights[name] = (
                        self._receive(line, stage, shape, dtype) if tensor is None else tensor.cpu()
                    )
                elif tensor is not None:
                    dist.send(tensor.contiguous(), group=line, group_dst=0)
        return weights

    def _receive(self, line: dist.ProcessGroup, stage: int, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        received = torch.empty(shape, dtype=dtype, device=self._device)
        dist.recv(received, group=line, group_src=stage)
        return received.cpu()


def _whole(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()
