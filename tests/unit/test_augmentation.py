"""Random changes of pictures: the same for a row of an epoch, whatever batch or rank it is in."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from wsshards.errors import UserError
from wsshards.manifest import Features
from wsshards.picture_decoding import fit_picture
from wsshards.pictures import decode_picture
from wstrain.data.augmentation import Augmentation, draw_uniforms, make_augmentation
from wstrain.data.sampler import GlobalBatchSampler

SMALL = Features("features", "float32", (3, 16, 16), stored="uint8", scale=1 / 255)
LARGE = Features("features", "float32", (3, 64, 64), stored="uint8", scale=1 / 255)
ENCODED = Features("features", "float32", (3, 24, 24), stored="uint8", scale=1 / 255, encoded=True)


def _jpeg(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (30, 40, 3), np.uint8)
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "JPEG")
    return target.getvalue()


class _Rows:
    """Rows as a reader has them, the row number being its label."""

    def __init__(self, features: Features, rows: int) -> None:
        self._rows: Any = [_jpeg(number) for number in range(rows)]
        if not features.encoded:
            self._rows = np.random.default_rng(0).integers(0, 255, (rows, features.width), np.uint8)

    def gather_stored(self, indices: Any) -> Any:
        rows = [self._rows[i] for i in indices]
        return (rows if isinstance(self._rows, list) else np.stack(rows)), indices


@settings(max_examples=25, deadline=None)
@given(
    parts=st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)]),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 5),
    features=st.sampled_from([SMALL, LARGE, ENCODED]),
    name=st.sampled_from(["light", "standard"]),
)
def test_a_global_batch_is_the_same_at_any_world_size(
    parts: tuple[int, int], seed: int, epoch: int, features: Features, name: str
) -> None:
    world, accumulation = parts
    reader, sampler = _Rows(features, 20), GlobalBatchSampler(20, 8, seed)
    augmentation = Augmentation(name, features, seed)
    whole, labels = augmentation.gather(reader, epoch, sampler.global_batch_indices(epoch, 1))
    pieces = [
        augmentation.gather(reader, epoch, rows)[0]
        for rank in range(world)
        for rows in sampler.micro_batches(epoch, 1, rank=rank, world_size=world, accumulation=accumulation)
    ]
    assert labels is not None
    assert np.array_equal(np.concatenate(pieces), whole)
    assert whole.dtype == np.float32
    assert 0 <= whole.min() <= whole.max() <= 1


def test_draws_differ_by_row_epoch_and_seed_and_are_even() -> None:
    drawn = draw_uniforms(3, 1, np.arange(5000))
    assert drawn.shape == (5000, 8)
    assert len(np.unique(drawn)) == drawn.size
    assert abs(drawn.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.05
    assert not np.isin(draw_uniforms(3, 2, np.arange(5000)), drawn).any()
    assert not np.isin(draw_uniforms(4, 1, np.arange(5000)), drawn).any()


def test_every_epoch_changes_a_picture_in_another_way() -> None:
    augmentation = Augmentation("standard", LARGE, 0)
    reader = _Rows(LARGE, 1)
    epochs = [augmentation.gather(reader, epoch, np.array([0]))[0] for epoch in range(6)]
    assert len({picture.tobytes() for picture in epochs}) == 6


def test_numbers_that_are_no_bytes_are_only_moved_and_flipped() -> None:
    features = Features("features", "float32", (1, 8, 8))

    class Digits:
        def gather_stored(self, indices: Any) -> Any:
            return np.tile(np.arange(64, dtype=np.float32), (len(indices), 1)), None

    changed, _ = Augmentation("standard", features, 0).gather(Digits(), 0, np.arange(10))
    assert set(np.unique(changed)) <= set(range(64))
    assert len({picture.tobytes() for picture in changed}) > 3


def test_rows_that_are_no_pictures_are_refused() -> None:
    assert make_augmentation("none", Features("tokens", "uint8", (9,)), 0) is None
    with pytest.raises(UserError, match=r"rows of shape \[9\], not pictures"):
        make_augmentation("light", Features("tokens", "uint8", (9,)), 0)


@pytest.mark.parametrize(
    ("resize", "corner", "middle"), [("crop", True, True), ("stretch", True, True), ("pad", False, True)]
)
def test_a_picture_is_brought_to_a_size(resize: str, corner: bool, middle: bool) -> None:
    picture = Image.new("L", (40, 20), 200)
    fitted = np.asarray(fit_picture(picture, (10, 10), resize))
    assert fitted.shape == (10, 10)
    assert (bool(fitted[0, 0]), bool(fitted[5, 5])) == (corner, middle)


def test_decoding_is_exact_where_the_size_fits() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (6, 5, 3), np.uint8)
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "PNG")
    assert np.array_equal(decode_picture(target.getvalue(), (3, 6, 5)), pixels.transpose(2, 0, 1))
    assert decode_picture(target.getvalue(), (1, 3, 3)).shape == (1, 3, 3)
    with pytest.raises(UserError, match="cannot be decoded"):
        decode_picture(b"text", (3, 6, 5))
