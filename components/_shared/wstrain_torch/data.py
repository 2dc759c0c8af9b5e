"""Rows of shards as PyTorch tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from wsshards.errors import UserError
from wsshards.manifest import Manifest
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION
from wstrain.data.augmentation import Augmentation
from wstrain.data.mixup import Mixup, Partners
from wstrain.data.prefetch import prefetch
from wstrain.data.sample_spec import SampleSpec, make_sample_spec, read_sample_spec
from wstrain.data.sampler import GlobalBatchSampler, Indices, seed_micro_batch
from wstrain.hooks import Hooks
from wstrain_torch.column_encoder import ColumnEncoder

MAX_STEP_VALUES = 1 << 18  # of a rank's inputs in one step, so that they are read at once
_PREPARE = 0x70726570  # keeps the random numbers of `prepare` apart from those of the model

Features = npt.NDArray[np.generic]
Labels = npt.NDArray[np.generic] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(SampleSpec):
    """A task of a PyTorch training: what a model reads, what it learns, and what its outputs mean.

    Attributes:
        encoder: the layer that encodes the rows of a table; None if they are read as they are stored.
        hooks: the user's own functions.
        label_smoothing: share of a target's probability that all classes have in equal parts.
        class_weights: of each class in the loss, ``[classes]``, on the device that computes it.
    """

    encoder: ColumnEncoder | None = None
    hooks: Hooks | None = None
    label_smoothing: float = 0.0
    class_weights: Tensor | None = field(default=None, compare=False)

    def inputs(self, features: Features) -> Tensor:
        """Return what the model is called with for rows as stored, ``[n, …]``, on the CPU.

        Of a language model's rows the last token must be left out.
        """
        return self.hook_inputs(self._encode(features))

    def hook_inputs(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Let the user's ``prepare`` change inputs ``[n, …]``; it has a generator in the training only."""
        if self.hooks is None or self.hooks.prepare is None:
            return inputs
        prepared: Tensor = self.hooks.call_prepare(inputs, generator)
        return prepared

    def prepare(
        self, features: Features, labels: Labels, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return inputs, and targets as :meth:`loss` takes them, for rows as stored; CPU tensors.

        Targets are int64 classes ``[n]`` or next tokens ``[n, tokens]``, float32 labels ``[n, classes]``, or
        float32 targets of a regression in standard deviations from the mean, ``[n, targets]``.

        Raises:
            UserError: the rows have no labels, or the user's ``prepare`` fails.
        """
        inputs, targets = self._pair(features, labels)
        return self.hook_inputs(inputs, generator), targets

    def mix(
        self,
        features: Features,
        labels: Labels,
        weights: npt.NDArray[np.float32],
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return weighted means of ``n`` samples and their partners (Zhang et al. 2018, "mixup").

        Args:
            features: rows of the samples, then of their partners, ``[2n, …]``.
            labels: of both.
            weights: of each sample, ``[n]``; its partner has the rest.
            generator: for the user's ``prepare``, which gets the means.

        Returns:
            Inputs and targets as of :meth:`prepare`, but classes are probabilities, float32 ``[n, classes]``.
        """
        inputs, targets = self._pair(features, labels)
        if self.name == CLASSIFICATION:
            targets = functional.one_hot(targets, self.outputs).float()
        own = torch.from_numpy(weights)
        mixed = []
        for values in (inputs, targets):
            share = own.view(-1, *(1,) * (values.ndim - 1))
            first, second = values.chunk(2)
            mixed.append(share * first + (1 - share) * second)
        return self.hook_inputs(mixed[0], generator), mixed[1]

    def _encode(self, features: Features) -> Tensor:
        if self.reads_tokens:
            return torch.from_numpy(features).long()
        rows = torch.from_numpy(features).float()
        return rows if self.encoder is None else self.encoder(rows)

    def _pair(self, features: Features, labels: Labels) -> tuple[Tensor, Tensor]:
        if self.name == LANGUAGE_MODEL:
            tokens = torch.from_numpy(features).long()
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        if labels is None:
            raise UserError(f"the shards have no labels, but their manifest says {self.name}")
        targets = torch.from_numpy(labels)
        if self.name == REGRESSION:
            mean, deviation = targets.new_tensor(self.target_mean), targets.new_tensor(self.target_deviation)
            return self._encode(features), ((targets - mean) / deviation).float()
        return self._encode(features), targets.float() if self.name == MULTI_LABEL else targets

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over samples (and tokens, targets or labels); outputs are ``[n, …, outputs]``.

        Cross-entropy in nats, binary cross-entropy for labels of which several apply, and for a regression
        the mean squared error of targets in standard deviations. A loss of the user's own stands for these.
        Weights of classes do not change what the loss is divided by.
        """
        if self.hooks is not None and self.hooks.loss is not None:
            own: Tensor = self.hooks.call("loss", outputs.float(), targets)
            return own
        if self.name == REGRESSION:
            return functional.mse_loss(outputs.float(), targets)
        if self.name == MULTI_LABEL:
            return functional.binary_cross_entropy_with_logits(outputs.float(), targets)
        smoothing = self.label_smoothing  # Szegedy et al. 2016, section 7
        if targets.is_floating_point() or self.class_weights is not None:  # shares, or weighted classes
            total = functional.cross_entropy(
                outputs.float(), targets, self.class_weights, reduction="sum", label_smoothing=smoothing
            )
            return total / len(targets)
        scores, wanted = outputs.float().flatten(0, -2), targets.flatten()
        padding = self.tokenizer.padding if self.tokenizer and self.name == LANGUAGE_MODEL else None
        if padding is None:
            return functional.cross_entropy(scores, wanted, label_smoothing=smoothing)
        # Divided by all tokens, so that every micro-batch weighs the same, however full its rows are.
        total = functional.cross_entropy(
            scores, wanted, ignore_index=padding, reduction="sum", label_smoothing=smoothing
        )
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
        return self.hook_inputs(torch.zeros(rows, *self.input_shape, dtype=dtype))


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


class _Part(NamedTuple):
    """Rows that are read at once, with what they are mixed, and the seed of the user's ``prepare``."""

    epoch: int
    indices: Indices
    micro_batches: int
    partners: Partners | None
    seed: int


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
        mixup: mixes each sample with another one.
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
    mixup: Mixup | None = None

    def stream(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the micro-batches of optimizer steps ``start … stop-1``, counted over the whole training."""
        batches = (
            batch
            for loaded in prefetch(self._load, self._parts(start, stop), self.workers)
            for batch in loaded
        )
        yield from batches if self.device.type == "cpu" else copy_ahead(batches, self.device)

    @property
    def _reads_steps(self) -> bool:
        """Whether a step is read at once: a read of few values costs more than the values."""
        hooks = self.task.hooks
        draws = hooks is not None and hooks.prepare is not None
        if draws or self.augmentation is not None or self.mixup is not None:
            return False
        rows = self.sampler.global_batch // self.world_size
        return rows * math.prod(self.task.input_shape) <= MAX_STEP_VALUES

    def _parts(self, start: int, stop: int) -> Iterator[_Part]:
        per_epoch = self.sampler.rows // self.sampler.global_batch
        reads = 1 if self._reads_steps else self.accumulation
        place: dict[str, int] = {"rank": self.rank, "world_size": self.world_size, "accumulation": reads}
        nothing: list[Partners | None] = [None] * reads
        for step in range(start, stop):
            epoch, batch = divmod(step, per_epoch)
            micro_batches = self.sampler.micro_batches(epoch, batch, **place)
            partners = self.mixup.micro_batches(step, **place) if self.mixup is not None else nothing
            for number, (indices, mixed) in enumerate(zip(micro_batches, partners, strict=True)):
                seed = seed_micro_batch(self.sampler.seed, step, self.rank * reads + number)
                yield _Part(epoch, indices, self.accumulation // reads, mixed, seed)

    def _load(self, part: _Part) -> list[Batch]:
        indices, partners = part.indices, part.partners
        if partners is not None:
            indices = np.concatenate([indices, partners.rows])
        if self.augmentation is not None:
            rows = self.augmentation.gather(self.reader, part.epoch, indices)
        else:
            rows = self.reader.gather(indices)
        hooks = self.task.hooks
        generator = (
            torch.Generator().manual_seed(part.seed ^ _PREPARE)
            if hooks is not None and hooks.is_random
            else None
        )
        if partners is None:
            inputs, targets = self.task.prepare(*rows, generator)
        else:
            inputs, targets = self.task.mix(*rows, partners.weights, generator)
        if self.device.type == "cuda":  # only pinned memory can be copied while the GPU computes
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        count = part.micro_batches
        return list(zip(inputs.chunk(count), targets.chunk(count), strict=True))


def copy_ahead(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Yield batches on a GPU; the next one is copied, in a stream of its own, while one is computed with.

    Args:
        batches: in pinned memory, as the host would wait for the copy of any other.
        device: the GPU.
    """
    copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    waiting: Batch | None = None
    for batch in batches:
        with torch.cuda.stream(copies):
            ready = cast("Batch", tuple(part.to(device, non_blocking=True) for part in batch))
        if waiting is not None:
            yield waiting
        # The stream of the computation waits for the copy, and memory is not reused before it has been read.
        computation = torch.cuda.current_stream(device)
        computation.wait_stream(copies)
        for part in ready:
            part.record_stream(computation)
        waiting = ready
    if waiting is not None:
        yield waiting
