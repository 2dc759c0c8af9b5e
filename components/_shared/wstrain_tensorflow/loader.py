"""Micro-batches for the replicas of this process, in NumPy, read ahead of the computation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wsshards.reader import ShardReader
from wstrain.data.sample_spec import SampleSpec
from wstrain.data.sampler import GlobalBatchSampler

Array = npt.NDArray[Any]


class MicroBatch(NamedTuple):
    """What one replica computes with at once: inputs ``[n, …]``, targets, the seed ``[2]`` of its place."""

    inputs: Array
    targets: Array
    seed: Array


@dataclass(frozen=True, slots=True)
class BatchLoader:
    """The stream of this process.

    Args:
        reader: the training rows.
        sampler: the global-batch law.
        samples: how rows become inputs and targets.
        replicas: numbers of the replicas that this process drives.
        replica_count: replicas that share a global batch.
        accumulation: micro-batches a replica takes for one step.
        seed: of everything random.
        workers: threads that read ahead; 0 reads when asked.
    """

    reader: ShardReader
    sampler: GlobalBatchSampler
    samples: SampleSpec
    replicas: Sequence[int]
    replica_count: int
    accumulation: int
    seed: int
    workers: int = 0

    def stream(self, start: int, stop: int) -> Iterator[list[MicroBatch]]:
        """Yield, for each micro-batch of steps ``start … stop-1``, one for every replica of this process."""
        wanted = ((step, micro) for step in range(start, stop) for micro in range(self.accumulation))
        if not self.workers:
            yield from (self._read(step, micro) for step, micro in wanted)
            return
        waiting: list[Future[list[MicroBatch]]] = []
        with ThreadPoolExecutor(self.workers, thread_name_prefix="loader") as pool:
            for place in wanted:
                waiting.append(pool.submit(self._read, *place))
                if len(waiting) > 2 * self.workers:
                    yield waiting.pop(0).result()
            yield from (each.result() for each in waiting)

    def _read(self, step: int, micro: int) -> list[MicroBatch]:
        return [self._micro_batch(step, replica, micro) for replica in self.replicas]

    def _micro_batch(self, step: int, replica: int, micro: int) -> MicroBatch:
        epoch, batch = divmod(step, self.sampler.rows // self.sampler.global_batch)
        rows = self.sampler.micro_batches(
            epoch, batch, rank=replica, world_size=self.replica_count, accumulation=self.accumulation
        )[micro]
        inputs, targets = prepare_rows(self.samples, *self.reader.gather(rows))
        return MicroBatch(inputs, targets, self._seed(step, replica * self.accumulation + micro))

    def _seed(self, step: int, place: int) -> Array:
        # Dropout and the like depend on the micro-batch's place in training: a resumed run draws the same
        # numbers, and so does another world size with micro-batches of one size.
        seed = (self.seed * 1_000_003 + step) * 1_000_003 + place
        return np.array([seed % (2**31 - 1), seed // (2**31 - 1) % (2**31 - 1)], np.int64)


def prepare_rows(samples: SampleSpec, features: Array, labels: Array | None) -> tuple[Array, Array]:
    """Rows as a model takes them: ``(inputs, targets)``."""
    if samples.name == "language_model":
        tokens = features.astype(np.int32)
        return tokens[:, :-1], tokens[:, 1:]
    assert labels is not None  # a manifest without labels is of another task
    return features.astype(np.float32, copy=False), labels.astype(np.int32)
