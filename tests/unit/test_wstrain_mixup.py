"""Partners of mixup: the same for a sample of the global batch, however it is divided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wstrain.data.mixup import Mixup, make_mixup
from wstrain.data.sampler import GlobalBatchSampler


@given(
    world=st.sampled_from([1, 2, 4]),
    accumulation=st.sampled_from([1, 2]),
    micro=st.integers(1, 4),
    step=st.integers(0, 20),
    seed=st.integers(0, 2**31),
)
def test_ranks_and_accumulation_cut_one_list(
    world: int, accumulation: int, micro: int, step: int, seed: int
) -> None:
    size = world * accumulation * micro
    mixup = Mixup(0.4, seed, GlobalBatchSampler(3 * size, size, seed))
    whole = mixup.draw(step)
    parts = [
        part
        for rank in range(world)
        for part in mixup.micro_batches(step, rank=rank, world_size=world, accumulation=accumulation)
    ]
    assert np.array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
    assert np.array_equal(np.concatenate([part.weights for part in parts]), whole.weights)
    own = mixup.sampler.global_batch_indices(*divmod(step, 3))
    assert sorted(whole.rows) == sorted(own)
    assert size == 1 or (whole.rows != own).all()
    assert ((whole.weights >= 0) & (whole.weights <= 1)).all()


def test_weights_have_the_distribution_that_alpha_says_and_differ_between_steps() -> None:
    sampler = GlobalBatchSampler(10_000, 5_000, 0)
    mixup = make_mixup(0.2, 0, sampler)
    assert mixup is not None
    first, second = mixup.draw(0).weights, mixup.draw(1).weights
    assert not np.array_equal(first, second)
    assert first.mean() == pytest.approx(0.5, abs=0.03)
    assert first.var() == pytest.approx(1 / (4 * (2 * 0.2 + 1)), abs=0.02)
    assert make_mixup(0.0, 0, sampler) is None
