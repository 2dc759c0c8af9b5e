"""Converts the state of a DeepSpeed engine to that of a process without DeepSpeed, and back.

ZeRO flattens parameters and gives each rank a slice. Here every parameter and each of its optimizer states is
gathered, one at a time, so a checkpoint fits any number of ranks, any stage, and
strategies without DeepSpeed. Keys and order are those of ``Module.state_dict`` and ``Optimizer.state_dict``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from deepspeed import zero
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_optimizer_state,
    safe_set_local_fp32_param,
    safe_set_local_optimizer_state,
)
from torch import Tensor, nn

Groups = Sequence[Sequence[nn.Parameter]]


class ZeroState:
    """Gathers and scatters the state of one engine; every method is called on every rank.

    Args:
        module: the model that the engine trains.
        groups: its parameters in the optimizer's order, noted before the engine put slices in their place.
        optimizer: what ``deepspeed.initialize`` returned.
        stage: of ZeRO.
    """

    def __init__(self, module: nn.Module, groups: Groups, optimizer: Any, stage: int) -> None:
        self._module, self._groups, self._optimizer, self._stage = module, groups, optimizer, stage
        self._base: torch.optim.Optimizer = optimizer.optimizer if stage else optimizer

    def model(self, *, keep: bool) -> dict[str, Tensor]:
        """Gather the weights, in fp32 on the CPU; only ranks that ``keep`` them get any."""
        whole: dict[str, Tensor] = {}
        for name, value in self._module.state_dict(keep_vars=True).items():
            full = self._whole(value)
            if keep:
                whole[name] = full.detach().cpu().clone()
        return whole

    def optimizer(self, *, keep: bool) -> dict[str, Any]:
        """Gather the optimizer's state on the CPU; only ranks that ``keep`` it get any."""
        state: dict[int, dict[str, Any]] = {}
        for number, parameter, slices in self._numbered():
            optimizer_state = self._base.state[parameter if self._stage == 0 else slices[0]]
            for key, value in optimizer_state.items():
                full = self._whole_state(parameter, key) if _is_slice(value) else value
                if keep and full is not None:
                    state.setdefault(number, {})[key] = _on_cpu(full)
        return {"state": state, "param_groups": self._described()}

    def load(self, model: Mapping[str, Tensor], optimizer: Mapping[str, Any]) -> None:
        """Load what :meth:`model` and :meth:`optimizer` gathered, at any stage on any number of ranks."""
        if self._stage == 0:
            self._module.load_state_dict(dict(model))
            self._base.load_state_dict(dict(optimizer))
            return
        for name, value in self._module.state_dict(keep_vars=True).items():
            self._set(value, model[name])
        self._make_room(optimizer["state"])
        for number, parameter, _ in self._numbered():
            for key, value in optimizer["state"].get(number, {}).items():
                if _is_slice(value):
                    self._set_state(parameter, key, value)

    def _numbered(self) -> Iterator[tuple[int, nn.Parameter, list[Tensor]]]:
        number = 0
        for index, group in enumerate(self._groups):
            slices = self._slices(index)
            for parameter in group:
                yield number, parameter, slices
                number += 1

    def _slices(self, group: int) -> list[Tensor]:
        """This rank's slices of a parameter group, as the inner optimizer knows them."""
        if self._stage == 3:  # cut into sub-groups of bounded size
            owners = self._optimizer.sub_group_to_group_id
            flat = self._optimizer.fp32_partitioned_groups_flat
            return [part for number, part in enumerate(flat) if owners[number] == group]
        return [self._optimizer.single_partition_of_fp32_groups[group]] if self._stage else []

    def _whole(self, value: Tensor) -> Tensor:
        if isinstance(value, nn.Parameter) and value.requires_grad and self._stage:
            full: Tensor = safe_get_full_fp32_param(value)
            return full
        if hasattr(value, "ds_id"):  # ZeRO 3 slices what is not trained as well
            with zero.GatheredParameters([value]):
                return value.detach().clone().float()
        return value.float() if value.is_floating_point() else value

    def _whole_state(self, parameter: nn.Parameter, key: str) -> Tensor:
        if self._stage == 0:
            full_state: Tensor = self._base.state[parameter][key]
            return full_state
        if self._stage < 3:
            self._link()
        full: Tensor = safe_get_full_optimizer_state(parameter, key)
        return full

    def _set(self, target: Tensor, value: Tensor) -> None:
        if not hasattr(target, "ds_id"):
            target.detach().copy_(value)
            if isinstance(target, nn.Parameter) and target.requires_grad:
                safe_set_full_fp32_param(target, value.to(target.device, torch.float32))
            return
        with zero.GatheredParameters([target], modifier_rank=0):
            target.detach().copy_(value)
        if target.requires_grad:
            safe_set_local_fp32_param(target, _own_part(target, value))

    def _set_state(self, parameter: nn.Parameter, key: str, value: Tensor) -> None:
        if self._stage == 3:
            safe_set_local_optimizer_state(parameter, _own_part(parameter, value), key)
        else:
            safe_set_full_optimizer_state(parameter, value.to(parameter.device), key)

    def _make_room(self, state: Mapping[int, Mapping[str, Any]]) -> None:
        # The inner optimizer makes its state at its first step; what is loaded needs it now.
        for number, _, slices in self._numbered():
            for part in slices:
                optimizer_state = self._base.state[part]
                for key, value in state.get(number, {}).items():
                    if key not in optimizer_state:
                        optimizer_state[key] = torch.zeros_like(part) if _is_slice(value) else _copy(value)
        if self._stage < 3:
            self._link()

    def _link(self) -> None:
        # DeepSpeed 0.19 links state to parameters once, while the first of several groups takes its first
        # step, so that the state of the other groups is never found.
        self._optimizer._hp_optimizer_states_linked = False  # noqa: SLF001
        self._optimizer._lazy_init_hp_params_optimizer_state()  # noqa: SLF001

    def _described(self) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = []
        start = 0
        for group, settings in zip(self._groups, self._base.param_groups, strict=True):
            plain = {key: value for key, value in settings.items() if key != "params"}
            described.append({**plain, "params": list(range(start, start + len(group)))})
            start += len(group)
        return described


def _is_slice(value: object) -> bool:
    """Whether a state belongs to each weight, as moments do, and not to the whole, as a step count does."""
    return isinstance(value, Tensor) and value.ndim > 0


def _own_part(parameter: Any, value: Tensor) -> Tensor:
    """The slice of ``value`` that ZeRO 3 keeps on this rank; the last rank's is padded with zeros."""
    size = parameter.ds_tensor.numel()
    padded = torch.zeros(size * dist.get_world_size(), dtype=torch.float32, device=parameter.ds_tensor.device)
    padded[: value.numel()] = value.flatten()
    return padded[size * dist.get_rank() :][:size]


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, Tensor) else value


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
