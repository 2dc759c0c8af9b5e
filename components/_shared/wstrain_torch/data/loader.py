"""Loads the micro-batches of this rank ahead of the computation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wstrain.data.prefetch import prefetch
from wstrain.data.sampler import GlobalBatchSampler, Indices
from wstrain_torch.data.task import Task

Batch = tuple[Tensor, Tensor]


class Reader(Protocol):
    """Gives rows by number, such as :class:`wsshards.reader.ShardReader`."""

    def gather(self, indices: Indices) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]:
        """Return features ``[n, …]`` and labels ``[n]``."""


@dataclass(frozen=True, slots=True)
class BatchLoader:
    """The rank's stream of ``(inputs, targets)``, ``accumulation`` of them for each optimizer step.

    Args:
        reader: the training rows.
        sampler: which rows each global batch has.
        task: how rows become inputs and targets.
        rank: this rank.
        world_size: ranks that share a global batch.
        accumulation: micro-batches a rank takes for one step.
        device: where the batches go.
        workers: threads that read ahead; 0 reads when asked.
    """

    reader: Reader
    sampler: GlobalBatchSampler
    task: Task
    rank: int
    world_size: int
    accumulation: int
    device: torch.device
    workers: int = 0

    def stream(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the micro-batches of optimizer steps ``start … stop-1``, counted over the whole training."""
        for batch in prefetch(self._load, self._indices(start, stop), self.workers):
            yield self._move(batch)

    def _indices(self, start: int, stop: int) -> Iterator[Indices]:
        per_epoch = self.sampler.rows // self.sampler.global_batch
        for step in range(start, stop):
            epoch, batch = divmod(step, per_epoch)
            yield from self.sampler.micro_batches(
                epoch, batch, rank=self.rank, world_size=self.world_size, accumulation=self.accumulation
            )

    def _load(self, indices: Indices) -> Batch:
        inputs, targets = self.task.prepare(*self.reader.gather(indices))
        if self.device.type == "cuda":  # only pinned memory can be copied while the GPU computes
            return inputs.pin_memory(), targets.pin_memory()
        return inputs, targets

    def _move(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        inputs, targets = batch
        return inputs.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True)
