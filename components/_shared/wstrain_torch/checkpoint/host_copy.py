"""Copies a training's state to host memory, all that the training waits for when a checkpoint is written."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_Alike = tuple[int, torch.dtype, torch.Size, tuple[int, ...]]


class HostCopy:
    """Buffers that are reused at every save, as allocating memory costs more than copying into it.

    They take as much host memory as the state. Those for a GPU's tensors are pinned, so that all copies run
    at the same time.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[Any, ...], Tensor] = {}
        self._now: dict[_Alike, Tensor] = {}
        self._asynchronous = False

    def take(self, state: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return ``state`` with every tensor copied; valid until the next call."""
        self._now, self._asynchronous = {}, False
        taken = {key: self._copy((key,), value) for key, value in state.items()}
        if self._asynchronous:
            torch.cuda.synchronize()
        self._now = {}
        return taken

    def _copy(self, place: tuple[Any, ...], value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(place, value.detach())
        if isinstance(value, Mapping):
            return {key: self._copy((*place, key), each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._copy((*place, number), each) for number, each in enumerate(value))
        return copy.deepcopy(value)

    def _tensor(self, place: tuple[Any, ...], value: Tensor) -> Tensor:
        # Weights that two layers share stay one tensor in the copy.
        same = (value.data_ptr(), value.dtype, value.shape, value.stride())
        if value.numel() and same in self._now:
            return self._now[same]
        buffer = self._buffers.get(place)
        if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
            buffer = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.is_cuda)
            self._buffers[place] = buffer
        buffer.copy_(value, non_blocking=value.is_cuda)
        self._asynchronous |= value.is_cuda
        self._now[same] = buffer
        return buffer
