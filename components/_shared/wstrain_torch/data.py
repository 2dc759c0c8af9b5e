"""Rows of shards as PyTorch tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION, Manifest
from wstrain.data.augmentation import Augmentation
from wstrain.data.prefetch import prefetch
from wstrain.data.sample_spec import SampleSpec, make_sample_spec, read_sample_spec
from wstrain.data.sampler import GlobalBatchSampler, Indices
from wstrain_torch.column_encoder import ColumnEncoder

Features = npt.NDArray[np.generic]
Labels = npt.NDArray[np.generic] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(SampleSpec):
    """A task of a PyTorch training: what a model reads, what it learns, and what its outputs mean.

    Attributes:
        encoder: the layer that encodes the rows of a table; None if they are read as they are stored.
    """

    encoder: ColumnEncoder | None = None

    def inputs(self, features: Features) -> Tensor:
        """Return what the model is called with for rows as stored, ``[n, …]``, on the CPU.

        Of a language model's rows the last token must be left out.
        """
        if self.reads_tokens:
            return torch.from_numpy(features).long()
        rows = torch.from_numpy(features).float()
        return rows if self.encoder is None else self.encoder(rows)

    def prepare(self, features: Features, labels: Labels) -> tuple[Tensor, Tensor]:
        """Return inputs, and targets as :meth:`loss` takes them, for rows as stored; CPU tensors.

        Targets are int64 classes ``[n]`` or next tokens ``[n, tokens]``, float32 labels ``[n, classes]``, or
        float32 targets of a regression in standard deviations from the mean, ``[n, targets]``.

        Raises:
            UserError: the rows have no labels.
        """
        if self.name == LANGUAGE_MODEL:
            tokens = torch.from_numpy(features).long()
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        if labels is None:
            raise UserError(f"the shards have no labels, but their manifest says {self.name}")
        targets = torch.from_numpy(labels)
        if self.name == REGRESSION:
            mean, deviation = targets.new_tensor(self.target_mean), targets.new_tensor(self.target_deviation)
            return self.inputs(features), ((targets - mean) / deviation).float()
        return self.inputs(features), targets.float() if self.name == MULTI_LABEL else targets

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over samples (and tokens, targets or labels); outputs are ``[n, …, outputs]``.

        Cross-entropy in nats, binary cross-entropy for labels of which several apply, and for a regression
        the mean squared error of targets in standard deviations.
        """
        if self.name == REGRESSION:
            return functional.mse_loss(outputs.float(), targets)
        if self.name == MULTI_LABEL:
            return functional.binary_cross_entropy_with_logits(outputs.float(), targets)
        scores, wanted = outputs.float().flatten(0, -2), targets.flatten()
        padding = self.tokenizer.padding if self.tokenizer and self.name == LANGUAGE_MODEL else None
        if padding is None:
            return functional.cross_entropy(scores, wanted)
        # Divided by all tokens, so that every micro-batch weighs the same, however full its rows are.
        total = functional.cross_entropy(scores, wanted, ignore_index=padding, reduction="sum")
        return total / wanted.numel()

    def predictions(self, outputs: Tensor) -> Tensor:
        """Return what the exported model answers, float32.

        Class probabilities ``[n, classes]``, probabilities of each label ``[n, classes]``, targets in their
        own unit ``[n, targets]``, or scores of the next token ``[n, tokens, vocabulary]``.
        """
        outputs = outputs.float()
        if self.name == CLASSIFICATION:
            return outputs.softmax(-1)
        if self.name == MULTI_LABEL:
            return outputs.sigmoid()
        if self.name == REGRESSION:
            mean, deviation = outputs.new_tensor(self.target_mean), outputs.new_tensor(self.target_deviation)
            return outputs * deviation + mean
        return outputs

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
    return Task(**values, encoder=ColumnEncoder(spec.encoding) if spec.encoding else None)


Batch = tuple[Tensor, Tensor]


class Reader(Protocol):
    """Gives rows by number, such as :class:`wsshards.reader.ShardReader`."""

    def gather(self, indices: Indices) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return features ``[n, …]`` and labels ``[n, …]``."""

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
