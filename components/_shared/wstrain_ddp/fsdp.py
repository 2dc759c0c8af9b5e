"""Fully sharded data parallel (FSDP2): a rank keeps a slice of every parameter, gradient and optimizer state.

A block's parameters are gathered before it computes and freed afterwards (Rajbhandari et al. 2020, "ZeRO",
stage 3; Zhao et al. 2023, "PyTorch FSDP"). Gradients are averaged over the data dimension of the mesh, as by
DDP, so the steps are DDP's up to rounding.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)

from wsshards.errors import UserError, describe_error
from wstrain_ddp.gradients import clip_gradients
from wstrain_ddp.model_part import DATA, TENSOR, make_device_mesh
from wstrain_ddp.tensor_parallel import split_tensors
from wstrain_torch.checkpoint import tensor_state
from wstrain_torch.compilation import compile_blocks
from wstrain_torch.launch.process_group import Group
from wstrain_torch.models.layers import Standardised, find_blocks
from wstrain_torch.strategies import (
    MicroBatches,
    Objective,
    TorchStrategy,
    UpdateSettings,
    copy_without_weights,
    return_freed_memory,
)

_DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
_RESHARD = {"always": True, "never": False, "auto": None}


@dataclass(frozen=True, slots=True)
class Sharding:
    """What may be chosen.

    Attributes:
        precision: ``fp32``, or the half precision that parameters are gathered and computed in; gradients are
            averaged, and weights kept, in fp32.
        reshard: free parameters after the forward pass and gather them again for the backward pass; None does
            so for all but the outermost, which the backward pass needs at once.
        offload: keep parameters, gradients and optimizer state in the host's memory.
    """

    precision: str = "fp32"
    reshard: bool | None = None
    offload: bool = False


def shard(model: nn.Module, parts: Sequence[nn.Module], mesh: DeviceMesh, sharding: Sharding) -> FSDPModule:
    """Shard each of ``parts``, then what is left of ``model``, in place.

    Args:
        model: on the CPU or the mesh's device, where it moves to part by part. It may be split over the
            tensor dimension of the same mesh already.
        parts: its blocks.
        mesh: the data dimension.
        sharding: the choices.

    Raises:
        UserError: a parameter cannot be sharded.
    """
    policy = MixedPrecisionPolicy(
        param_dtype=_DTYPES[sharding.precision],
        reduce_dtype=torch.float32,
        # Autocast does the casting, as it does without sharding: inputs keep their digits until a layer wants
        # fewer.
        cast_forward_inputs=False,
    )
    offload = CPUOffloadPolicy() if sharding.offload else OffloadPolicy()
    exact = _constants(model)
    for constant in exact:
        constant.data = constant.data.to(mesh.device_type)
    try:
        for part in (*parts, model):
            fully_shard(
                part,
                mesh=mesh,
                reshard_after_forward=sharding.reshard,
                mp_policy=policy,
                offload_policy=offload,
                ignored_params=exact,
            )
    except ValueError as error:  # a parameter without dimensions
        raise UserError(f"`fsdp` cannot shard the model: {describe_error(error)}") from error
    assert isinstance(model, FSDPModule)
    return model


class ShardedData(TorchStrategy):
    """The strategy ``fsdp``."""

    sharded = True

    def __init__(self, model: nn.Module, updates: UpdateSettings, group: Group) -> None:
        parts = find_blocks(model, "`strategy: fsdp`")
        if group.device.type == "cpu":
            return_freed_memory()
        self._plain = copy_without_weights(model)
        self._sharding = _sharding(updates, group)
        mesh = make_device_mesh(group)
        if group.mesh.tensor > 1:
            split_tensors(model, mesh[TENSOR])
        if updates.compile:  # a block's weights are gathered outside of what is compiled
            compile_blocks(parts, group.device)
        self._fsdp = shard(model, parts, mesh[DATA], self._sharding)
        _quieten(model, group)
        self._trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        super().__init__(model, updates)
        self._reduce_always = updates.options.get("fsdp_reduce") == "micro_batch"

    def gradients(self, micro_batches: MicroBatches, objective: Objective) -> Tensor:
        """Add gradients up; a block's are averaged while the blocks before it are still being computed."""
        try:
            return super().gradients(micro_batches, objective)
        except RuntimeError as error:
            if "mixed torch.Tensor and DTensor" not in str(error):
                raise
            raise UserError(
                "the model uses the weights of a block outside its forward pass, where they are not gathered",
                "call each block as a module, or leave it out of `blocks`",
            ) from error

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluate, then free what forward passes have gathered for a backward pass that does not come."""
        with super().evaluating():
            yield
        for part in self.model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()

    def state(self) -> dict[str, Tensor]:
        """This rank's slices, by name."""
        self._before_save()
        return tensor_state.collect_tensors(self.model, self._optimizer, self._scaler)

    def load(self, state: tensor_state.StoredTensors) -> None:
        """Fill this rank's slices."""
        tensor_state.restore_tensors(state, self.model, self._optimizer, self._scaler)
        self._after_load()

    def whole_model(self) -> nn.Module:
        """Gather the weights one by one into a plain copy of the model in rank 0's memory."""
        self._take_average()
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights = get_model_state_dict(self.model, options=options)
        if weights:  # on rank 0
            self._plain.load_state_dict(weights, assign=True)
        return self._plain

    def _compile(self, module: nn.Module) -> nn.Module:
        return module  # its blocks are compiled

    def _clip(self) -> None:
        clip_gradients(self._trained, self._max_norm)

    def _exchange(self, last: bool) -> AbstractContextManager[object]:
        self._fsdp.set_is_last_backward(last)
        self._fsdp.set_requires_gradient_sync(last or self._reduce_always)
        if self._sharding.reshard is False:  # what was gathered once serves all micro-batches of a step
            self._fsdp.set_reshard_after_backward(last)
        return nullcontext()


def _constants(model: nn.Module) -> set[nn.Parameter]:
    # The scale of inputs is a few numbers, which half precision would round away.
    return {model.mean, model.deviation} if isinstance(model, Standardised) else set()


def _quieten(model: nn.Module, group: Group) -> None:
    # Scores go into a loss, which changes nothing in place.
    view = rf"FSDP2-wrapped module \({type(model).__name__}\) returned a view"
    warnings.filterwarnings("ignore", message=view)
    if group.mesh.tensor > 1:  # gathering what is cut twice takes two steps: once a training
        logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)


def _sharding(updates: UpdateSettings, group: Group) -> Sharding:
    options: dict[str, Any] = dict(updates.options)
    offload = bool(options.get("fsdp_cpu_offload")) and group.device.type != "cpu"
    return Sharding(
        precision=updates.precision.name,
        reshard=_RESHARD[options.get("fsdp_reshard", "auto")],
        offload=offload,
    )


def build_strategy(model: nn.Module, updates: UpdateSettings, group: Group) -> ShardedData:
    """Return the strategy around ``model``.

    Raises:
        UserError: the model names no blocks, or the mesh has pipeline stages.
    """
    if group.mesh.pipeline > 1:
        raise UserError(
            f"`pipeline_parallel_size` is {group.mesh.pipeline}, but `strategy: fsdp` has no stages",
            "use `strategy: pipeline_parallel`, or `pipeline_parallel_size: 1`",
        )
    return ShardedData(model, updates, group)
