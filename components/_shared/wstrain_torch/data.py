"""Rows of shards as PyTorch tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from wsshards.errors import UserError
from wsshards.manifest import LANGUAGE_MODEL, Manifest
from wstrain.data.augmentation import Augmentation
from wstrain.data.prefetch import prefetch
from wstrain.data.sample_spec import SampleSpec, make_sample_spec, read_sample_spec
from wstrain.data.sampler import GlobalBatchSampler, Indices


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(SampleSpec):
    """A task of a PyTorch training.

    Attributes:
        prepare: ``(features [n, …], labels [n] | None) -> (inputs, targets)``, CPU tensors.
    """

    prepare: Callable[[npt.NDArray[np.generic], npt.NDArray[np.int64] | None], tuple[Tensor, Tensor]]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats, over samples (and tokens); logits are ``[n, …, outputs]``."""
        return functional.cross_entropy(logits.float().flatten(0, -2), targets.flatten())

    def example(self, rows: int) -> Tensor:
        """Return zeros of the shape and dtype that the model is called with, ``[rows, …]``."""
        dtype = torch.int64 if self.reads_tokens else torch.float32
        return torch.zeros(rows, *self.input_shape, dtype=dtype)


def make_task(name: str, shape: tuple[int, ...], dtype: str, outputs: int, **more: Any) -> Task:
    """Return the task of such samples; arguments and errors are those of ``make_sample_spec``."""
    return _task_of(make_sample_spec(name, shape, dtype, outputs, **more))


def read_task(manifest: Manifest) -> Task:
    """Return the task that a shard manifest describes; raises UserError if nothing can be learned from it."""
    return _task_of(read_sample_spec(manifest))


def _task_of(spec: SampleSpec) -> Task:
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return Task(**values, prepare=_choose_prepare(spec))


def _choose_prepare(spec: SampleSpec) -> Callable[..., tuple[Tensor, Tensor]]:
    if spec.name == LANGUAGE_MODEL:
        return _next_token
    return _whole_text if spec.reads_tokens else _classification


def _whole_text(
    features: npt.NDArray[np.generic], labels: npt.NDArray[np.int64] | None
) -> tuple[Tensor, Tensor]:
    _, targets = _classification(features[:0], labels)
    return torch.from_numpy(features.astype(np.int64)), targets


def _classification(
    features: npt.NDArray[np.generic], labels: npt.NDArray[np.int64] | None
) -> tuple[Tensor, Tensor]:
    if labels is None:
        raise UserError("the shards have no labels, but their manifest says classification")
    return torch.from_numpy(features).float(), torch.from_numpy(labels)


def _next_token(features: npt.NDArray[np.generic], _: npt.NDArray[np.int64] | None) -> tuple[Tensor, Tensor]:
    tokens = torch.from_numpy(features.astype(np.int64))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


Batch = tuple[Tensor, Tensor]


class Reader(Protocol):
    """Gives rows by number, such as :class:`wsshards.reader.ShardReader`."""

    def gather(self, indices: Indices) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64] | None]:
        """Return features ``[n, …]`` and labels ``[n]``."""

    def gather_stored(self, indices: Indices) -> tuple[Any, npt.NDArray[np.int64] | None]:
        """Return rows as they are on disk, and labels ``[n]``."""


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
        augmentation: changes the pictures of training rows.
    """

    reader: Reader
    sampler: GlobalBatchSampler
    task: Task
    rank: int
    world_size: int
    accumulation: int
    device: torch.device
    workers: int = 0
    augmentation: Augmentation | None = None

    def stream(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the micro-batches of optimizer steps ``start … stop-1``, counted over the whole training."""
        for batch in prefetch(self._load, self._indices(start, stop), self.workers):
            yield self._move(batch)

    def _indices(self, start: int, stop: int) -> Iterator[tuple[int, Indices]]:
        per_epoch = self.sampler.rows // self.sampler.global_batch
        for step in range(start, stop):
            epoch, batch = divmod(step, per_epoch)
            micro_batches = self.sampler.micro_batches(
                epoch, batch, rank=self.rank, world_size=self.world_size, accumulation=self.accumulation
            )
            yield from ((epoch, indices) for indices in micro_batches)

    def _load(self, position: tuple[int, Indices]) -> Batch:
        epoch, indices = position
        if self.augmentation is not None:
            rows = self.augmentation.gather(self.reader, epoch, indices)
        else:
            rows = self.reader.gather(indices)
        inputs, targets = self.task.prepare(*rows)
        if self.device.type == "cuda":  # only pinned memory can be copied while the GPU computes
            return inputs.pin_memory(), targets.pin_memory()
        return inputs, targets

    def _move(self, batch: Batch) -> Batch:
        if self.device.type == "cpu":
            return batch
        inputs, targets = batch
        return inputs.to(self.device, non_blocking=True), targets.to(self.device, non_blocking=True)
