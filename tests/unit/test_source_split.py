from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wssources.planned_rows import validation_rows

pytestmark = [pytest.mark.run, pytest.mark.smoke]  # needs numpy


def _held_out(hashes: Any, labels: Any, fraction: float, chunk: int = 7) -> Any:
    import numpy as np

    from wssources.split import find_thresholds

    counts = np.bincount(labels, minlength=int(labels.max()) + 1)

    def chunks() -> Any:
        return ((hashes[i : i + chunk], labels[i : i + chunk]) for i in range(0, len(hashes), chunk))

    return hashes < find_thresholds(chunks, counts.tolist(), fraction)[labels], counts


@settings(deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=30), st.floats(0, 0.95), st.integers(0, 2**32))
def test_distinct_rows_are_split_exactly_as_planned(sizes: list[int], fraction: float, seed: int) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    hashes = rng.integers(0, 2**64, len(labels), np.uint64)
    out, counts = _held_out(hashes, labels, fraction)
    assert np.bincount(labels[out], minlength=len(counts)).tolist() == [
        validation_rows([n], fraction) for n in counts
    ]


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=25), st.floats(0, 0.95), st.integers(0, 2**32))
def test_copies_stay_together_and_no_nearer_split_exists(
    copies: list[int], fraction: float, seed: int
) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    values = np.unique(rng.integers(0, 2**64, len(copies), np.uint64))
    copies = copies[: len(values)]
    hashes = rng.permutation(np.repeat(values, copies))
    out, _ = _held_out(hashes, np.zeros(len(hashes), np.int64), fraction)
    assert not set(hashes[out]) & set(hashes[~out])
    wanted = validation_rows([len(hashes)], fraction)
    possible = [total for total in np.cumsum([0, *copies]).tolist() if total < len(hashes)]
    assert abs(int(out.sum()) - wanted) == min(abs(total - wanted) for total in possible)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9), st.integers(0, 5), st.sampled_from(["uint8", "float32"]))
def test_hash_depends_on_the_bytes_and_the_seed_alone(width: int, seed: int, dtype: str) -> None:
    import numpy as np

    from wssources.split import hash_rows

    rows = np.random.default_rng(width).integers(0, 3, (500, width)).astype(dtype)
    hashes = hash_rows(rows, seed)
    assert len(np.unique(hashes)) == len(np.unique(rows, axis=0))
    assert (hash_rows(np.ascontiguousarray(rows[::-1]), seed)[::-1] == hashes).all()
    assert (hash_rows(rows, seed + 1) != hashes).all()


def test_hash_keeps_rows_apart_that_differ_in_signs_only() -> None:
    import numpy as np

    from wssources.split import hash_rows

    signs = np.array(
        [[1.0 if bit >> j & 1 else -1.0 for j in range(14)] for bit in range(1 << 14)], np.float32
    )
    assert len(np.unique(hash_rows(signs, 0))) == 1 << 14


def test_shuffle_keys_are_distinct_and_continue() -> None:
    import numpy as np

    from wssources.split import shuffle_keys

    keys = shuffle_keys(0, 100_000, 3)
    assert len(np.unique(keys)) == 100_000
    assert (np.concatenate([shuffle_keys(0, 7, 3), shuffle_keys(7, 93, 3)]) == keys[:100]).all()
    assert abs(float((keys >> np.uint64(63)).mean()) - 0.5) < 0.01
