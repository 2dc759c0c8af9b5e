"""Mixup: each training sample becomes a weighted mean of two (Zhang et al. 2018, "mixup").

A sample's partner is another sample of the same *global* batch, and both the partner and the weight depend
only on the seed, the step and the sample's place in the global batch. So a training is the same at any world
size and accumulation, and after it resumes. The rank reads the partner's row itself: nothing is exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wstrain.data.sampler import GlobalBatchSampler, Indices

_STREAM = 0x6D69787570  # keeps these random numbers apart from those of other uses of the seed


class Partners(NamedTuple):
    """With what the ``n`` samples of a micro-batch are mixed.

    Attributes:
        rows: row number of each sample's partner, ``[n]``.
        weights: weight of the sample itself, from 0 to 1, float32 ``[n]``; the partner has the rest.
    """

    rows: Indices
    weights: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Mixup:
    """Draws partners and weights.

    Args:
        alpha: both parameters of the Beta distribution of weights; above 0.
        seed: of the training.
        sampler: which rows each global batch has.
    """

    alpha: float
    seed: int
    sampler: GlobalBatchSampler

    def draw(self, step: int) -> Partners:
        """Return the partners of the ``G`` samples of optimizer step ``step``, in the batch's order.

        All are the sample a random distance further on in the global batch, so each is a partner once, and
        no sample is its own. A global batch of one sample stays as it is.
        """
        epoch, batch = divmod(step, self.sampler.rows // self.sampler.global_batch)
        whole = self.sampler.global_batch_indices(epoch, batch)
        random = np.random.default_rng([_STREAM, self.seed, step])
        distance = int(random.integers(1, len(whole))) if len(whole) > 1 else 0
        weights = random.beta(self.alpha, self.alpha, len(whole)).astype(np.float32)
        return Partners(np.roll(whole, -distance), weights)

    def micro_batches(self, step: int, *, rank: int, world_size: int, accumulation: int) -> list[Partners]:
        """Return the partners of this rank's micro-batches, cut as ``GlobalBatchSampler.micro_batches``."""
        rows, weights = (part.reshape(world_size * accumulation, -1) for part in self.draw(step))
        own = slice(rank * accumulation, (rank + 1) * accumulation)
        return [Partners(*part) for part in zip(rows[own], weights[own], strict=True)]


def make_mixup(alpha: float, seed: int, sampler: GlobalBatchSampler) -> Mixup | None:
    """Return what draws partners; None for an ``alpha`` of 0."""
    return Mixup(alpha, seed, sampler) if alpha else None
