"""What a rank does with its part of a model that is divided over ranks: update it, save it, give it back."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from wstrain_ddp.device_mesh import DATA, PIPELINE, TENSOR
from wstrain_ddp.gradients import average_gradients, clip_gradients
from wstrain_torch.checkpoint import tensor_state
from wstrain_torch.strategies import TorchStrategy, UpdateSettings


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
        return tensor_state.collect_tensors(self._module, self._optimizer, self._scaler)

    def load(self, state: tensor_state.StoredTensors) -> None:
        """Fill this rank's part."""
        tensor_state.restore_tensors(state, self._module, self._optimizer, self._scaler)

    def whole_model(self) -> nn.Module:
        """Put the weights of all parts into a plain copy of the model, in rank 0's memory."""
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
