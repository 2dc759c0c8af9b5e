from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from wstrain.data.sampler import GlobalBatchSampler, permute  # noqa: E402

SEEDS = st.integers(0, 2**63)


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(0, 2**64 - 1))
def test_an_epoch_is_a_permutation(size: int, key: int) -> None:
    order = permute(np.arange(size, dtype=np.uint64), size, key)
    assert np.array_equal(np.sort(order), np.arange(size))


@settings(deadline=None)
@given(st.integers(2**33, 2**62), SEEDS)
def test_rows_beyond_memory_cost_nothing(size: int, key: int) -> None:
    order = permute(np.arange(size - 100, size, dtype=np.uint64), size, key)
    assert order.min() >= 0
    assert order.max() < size
    assert len(set(order.tolist())) == 100


@settings(deadline=None)
@given(st.data(), SEEDS)
def test_ranks_and_micro_steps_partition_the_global_batch(data: st.DataObject, seed: int) -> None:
    world, accumulation, per_device = (data.draw(st.integers(1, 6)) for _ in range(3))
    batch = world * accumulation * per_device
    rows = data.draw(st.integers(batch, 4 * batch + 7))
    epoch, number = data.draw(st.integers(0, 1000)), data.draw(st.integers(0, rows // batch - 1))
    sampler = GlobalBatchSampler(rows, batch, seed)
    parts = [
        part
        for rank in range(world)
        for part in sampler.micro_batches(
            epoch, number, rank=rank, world_size=world, accumulation=accumulation
        )
    ]
    assert {len(part) for part in parts} == {per_device}
    assert np.array_equal(np.concatenate(parts), sampler.global_batch_indices(epoch, number))


@settings(deadline=None)
@given(st.integers(1, 8).map(lambda power: 2**power), SEEDS)
def test_micro_batches_of_one_size_are_the_same_at_any_world_size(world: int, seed: int) -> None:
    sampler = GlobalBatchSampler(2000, 512, seed)
    alone = sampler.micro_batches(3, 2, rank=0, world_size=1, accumulation=world)
    for rank in range(world):
        (mine,) = sampler.micro_batches(3, 2, rank=rank, world_size=world, accumulation=1)
        assert np.array_equal(mine, alone[rank])


def test_batches_of_an_epoch_do_not_overlap_and_epochs_differ() -> None:
    sampler = GlobalBatchSampler(1437, 256, seed=7)
    epochs = [np.concatenate([sampler.global_batch_indices(epoch, k) for k in range(5)]) for epoch in (0, 1)]
    assert all(len(set(epoch.tolist())) == 1280 for epoch in epochs)
    assert not np.array_equal(*epochs)
    assert not np.array_equal(epochs[0], np.sort(epochs[0]))


def test_the_order_is_frozen() -> None:
    # Every checkpoint in the world resumes by this order: a change here is a change of format.
    assert GlobalBatchSampler(1000, 8, seed=0).global_batch_indices(0, 0).tolist() == FROZEN


def test_an_epoch_kept_and_one_computed_piece_by_piece_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = GlobalBatchSampler(5000, 300, seed=11)
    kept = [sampler.global_batch_indices(2, k).copy() for k in range(16)]
    monkeypatch.setattr("wstrain.data.sampler.MAX_CACHED_ROWS", 0)
    assert np.array_equal(kept, [sampler.global_batch_indices(2, k) for k in range(16)])


def test_neighbours_in_the_data_do_not_stay_neighbours() -> None:
    order = permute(np.arange(10_000, dtype=np.uint64), 10_000, 5)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.03


def test_there_is_no_batch_after_the_last() -> None:
    with pytest.raises(IndexError, match="5 global batches"):
        GlobalBatchSampler(1437, 256, seed=0).global_batch_indices(0, 5)
    with pytest.raises(ValueError, match="does not divide into 3"):
        GlobalBatchSampler(1437, 256, seed=0).micro_batches(0, 0, rank=0, world_size=3, accumulation=1)


FROZEN = [287, 275, 697, 131, 80, 167, 185, 708]
