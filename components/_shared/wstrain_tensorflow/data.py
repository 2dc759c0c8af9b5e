"""Loads the micro-batches of this process's replicas ahead of the computation, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wsshards.reader import ShardReader
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL, MULTI_LABEL, REGRESSION
from wstrain.data.augmentation import Augmentation
from wstrain.data.mixup import Mixup
from wstrain.data.prefetch import prefetch
from wstrain.data.sample_spec import SampleSpec
from wstrain.data.sampler import GlobalBatchSampler

Array = npt.NDArray[Any]


class MicroBatch(NamedTuple):
    """One micro-batch: inputs ``[n, …]``, targets, and the seed ``[2]`` of its position in the training."""

    inputs: Array
    targets: Array
    seed: Array


@dataclass(frozen=True, slots=True)
class BatchLoader:
    """The micro-batches of this process.

    Args:
        reader: the training rows.
        sampler: which rows each global batch has.
        samples: how rows become inputs and targets.
        replicas: numbers of this process's replicas.
        replica_count: replicas that share a global batch.
        accumulation: micro-batches a replica takes for one step.
        seed: of everything random.
        workers: threads that read ahead; 0 reads when asked.
        augmentation: changes the pictures of training rows.
        mixup: mixes each sample with another one; only rows that are stored as a model reads them.
    """

    reader: ShardReader
    sampler: GlobalBatchSampler
    samples: SampleSpec
    replicas: Sequence[int]
    replica_count: int
    accumulation: int
    seed: int
    workers: int = 0
    augmentation: Augmentation | None = None
    mixup: Mixup | None = None

    def stream(self, start: int, stop: int) -> Iterator[list[MicroBatch]]:
        """Yield, for each micro-batch of steps ``start … stop-1``, one for every replica of this process."""
        positions = ((step, micro) for step in range(start, stop) for micro in range(self.accumulation))
        yield from prefetch(self._load, positions, self.workers)

    def _load(self, position: tuple[int, int]) -> list[MicroBatch]:
        step, micro = position
        return [self._micro_batch(step, replica, micro) for replica in self.replicas]

    def _micro_batch(self, step: int, replica: int, micro: int) -> MicroBatch:
        epoch, batch = divmod(step, self.sampler.rows // self.sampler.global_batch)
        place: dict[str, int] = {
            "rank": replica,
            "world_size": self.replica_count,
            "accumulation": self.accumulation,
        }
        rows = self.sampler.micro_batches(epoch, batch, **place)[micro]
        partners = self.mixup.micro_batches(step, **place)[micro] if self.mixup is not None else None
        if partners is not None:
            rows = np.concatenate([rows, partners.rows])
        if self.augmentation is not None:
            gathered = self.augmentation.gather(self.reader, epoch, rows)
        else:
            gathered = self.reader.gather(rows)
        inputs, targets = prepare_rows(self.samples, *gathered)
        if partners is not None:
            inputs, targets = mix_rows(self.samples, inputs, targets, partners.weights)
        return MicroBatch(inputs, targets, self._seed(step, replica * self.accumulation + micro))

    def _seed(self, step: int, position: int) -> Array:
        # Random numbers depend on the position of the micro-batch in the training: a resumed run draws the
        # same, and so does another world size with micro-batches of the same size.
        seed = (self.seed * 1_000_003 + step) * 1_000_003 + position
        return np.array([seed % (2**31 - 1), seed // (2**31 - 1) % (2**31 - 1)], np.int64)


def mix_rows(
    samples: SampleSpec, inputs: Array, targets: Array, weights: npt.NDArray[np.float32]
) -> tuple[Array, Array]:
    """Return weighted means of ``n`` samples and their partners (Zhang et al. 2018, "mixup").

    Args:
        samples: inputs and outputs of the model.
        inputs: from :func:`prepare_rows`, of the samples and then of their partners, ``[2n, …]``.
        targets: of both.
        weights: of each sample, ``[n]``; its partner has the rest.

    Returns:
        Inputs, and targets as they were, but classes are probabilities, float32 ``[n, classes]``.
    """
    if samples.name == CLASSIFICATION:
        targets = np.eye(samples.outputs, dtype=np.float32)[targets]
    mixed = []
    for values in (inputs, targets):
        share = weights.reshape(-1, *(1,) * (values.ndim - 1))
        first, second = np.split(values, 2)
        mixed.append(share * first + (1 - share) * second)
    return mixed[0], mixed[1]


def prepare_rows(samples: SampleSpec, features: Array, labels: Array | None) -> tuple[Array, Array]:
    """Return rows as stored, but in the type that is computed in, and targets.

    Targets are int32 classes ``[n]`` or next tokens ``[n, tokens]``, float32 labels ``[n, classes]``, or
    float32 targets of a regression in standard deviations from the mean, ``[n, targets]``.
    """
    if samples.name == LANGUAGE_MODEL:
        tokens = features.astype(np.int32)
        return tokens[:, :-1], tokens[:, 1:]
    assert labels is not None  # a manifest without labels is of another task
    inputs = features.astype(np.int32 if samples.reads_tokens else np.float32, copy=False)
    if samples.name == REGRESSION:
        return inputs, ((labels - samples.target_mean) / samples.target_deviation).astype(np.float32)
    return inputs, labels.astype(np.float32 if samples.name == MULTI_LABEL else np.int32)
