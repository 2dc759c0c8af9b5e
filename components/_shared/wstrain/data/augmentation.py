"""Random changes of pictures while training: flips, crops and colours.

What is drawn for a picture depends only on the seed, the epoch and the picture's row number, never on the
batch, the rank or the world size: the global batches of a training are the same however they are divided,
and after it resumes. The numbers come from 64-bit integer arithmetic, so they do not depend on a library's
version. Nothing here needs more than NumPy and Pillow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError
from wsshards.manifest import Features
from wsshards.picture_decoding import MODES, to_array
from wsshards.pictures import open_picture

Array = npt.NDArray[Any]
_SMALL = 64  # pixels of the shorter side: smaller pictures are padded and cropped, not resized
_PAD_SHARE = 8  # of a small picture's side: 4 pixels of 32 (He et al. 2016, section 4.2)
_AREAS = {"light": (0.6, 1.0), "standard": (0.35, 1.0)}  # of the picture that a crop covers
_RATIO = (3 / 4, 4 / 3)  # width to height of a crop (Szegedy et al. 2015, section 6)
_JITTER = 0.3  # most change of brightness, contrast and saturation
_DRAWS = 8  # random numbers for one picture
_GREY = np.array([0.299, 0.587, 0.114], np.float32)  # brightness of red, green and blue (ITU-R BT.601)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Reader(Protocol):
    """Gives rows by number, such as :class:`wsshards.reader.ShardReader`."""

    def gather_stored(self, indices: npt.NDArray[np.int64]) -> tuple[Array | list[bytes], Array | None]:
        """Return rows as they are on disk, and labels."""


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Changes training pictures.

    Args:
        name: `light` (flip and crop) or `standard` (also smaller crops and colours).
        features: what the rows are; raises UserError if they are no pictures.
        seed: of the training.
    """

    name: str
    features: Features
    seed: int

    def __post_init__(self) -> None:
        if len(self.features.shape) != 3:
            raise UserError(
                f"`augmentation` is `{self.name}`, and the shards hold rows of shape"
                f" {list(self.features.shape)}, not pictures",
                "use `augmentation: none`",
            )

    def gather(
        self, reader: Reader, epoch: int, rows: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float32], Array | None]:
        """Return changed pictures `[n, channels, height, width]`, scaled as a reader does, and labels."""
        stored, labels = reader.gather_stored(rows)
        draws = draw_uniforms(self.seed, epoch, rows)
        pictures = np.empty((len(rows), *self.features.shape), np.float32)
        for picture, row, numbers in zip(pictures, stored, draws, strict=True):
            picture[:] = self._change(row, numbers)
        return pictures, labels

    def _change(self, row: Any, draws: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
        shape = self.features.shape
        if isinstance(row, bytes):
            picture = open_picture(row, shape, shrink=False)
            values = to_array(_crop_resized(picture, (shape[2], shape[1]), _AREAS[self.name], draws))
        elif row.dtype == np.uint8 and min(shape[1:]) >= _SMALL and shape[0] in MODES:
            image = _to_image(row.reshape(shape))
            values = to_array(_crop_resized(image, (shape[2], shape[1]), _AREAS[self.name], draws))
        else:
            values = _pad_and_crop(row.reshape(shape), draws)
        if draws[0] < 0.5:
            values = values[:, :, ::-1]
        scaled = values.astype(np.float32)
        if self.features.stored:
            scaled *= np.float32(self.features.scale)
            if self.name == "standard":
                scaled = _jitter(scaled, draws[5:8])
        return scaled


def make_augmentation(name: str, features: Features, seed: int) -> Augmentation | None:
    """Return what changes the pictures; None for `none`. Raises UserError for rows that are no pictures."""
    return None if name == "none" else Augmentation(name, features, seed)


def draw_uniforms(seed: int, epoch: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return 8 numbers from 0 to 1 for each row, `[n, 8]`, that depend on nothing else than the arguments."""
    key = _mix(_mix(np.array([seed % (1 << 64)], np.uint64)) ^ np.uint64(epoch))
    rows_key = _mix(key ^ _mix(np.asarray(rows).astype(np.uint64) * _GOLDEN))
    numbers = np.arange(1, _DRAWS + 1, dtype=np.uint64) * _GOLDEN
    drawn: npt.NDArray[np.float64] = (_mix(rows_key[:, None] + numbers) >> np.uint64(11)) * 2.0**-53
    return drawn


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    # The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def _to_image(pixels: Array) -> Any:
    from PIL import Image

    return Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))


def _crop_resized(
    picture: Any, size: tuple[int, int], areas: tuple[float, float], draws: npt.NDArray[np.float64]
) -> Any:
    """Cut a random part of an image out and resize it to `size` (Szegedy et al. 2015, section 6)."""
    from PIL import Image

    area = picture.width * picture.height * (areas[0] + (areas[1] - areas[0]) * draws[1])
    low, high = (math.log(ratio * size[0] / size[1]) for ratio in _RATIO)
    ratio = math.exp(low + (high - low) * draws[2])
    width, height = min(picture.width, math.sqrt(area * ratio)), min(picture.height, math.sqrt(area / ratio))
    left, top = (picture.width - width) * draws[3], (picture.height - height) * draws[4]
    return picture.resize(size, Image.Resampling.BILINEAR, box=(left, top, left + width, top + height))


def _pad_and_crop(picture: Array, draws: npt.NDArray[np.float64]) -> Array:
    """Move an array by up to an eighth of its sides; what comes in at the edge mirrors what is there."""
    _, height, width = picture.shape
    tall, wide = height // _PAD_SHARE, width // _PAD_SHARE
    padded = np.pad(picture, ((0, 0), (tall, tall), (wide, wide)), mode="symmetric")
    top, left = int(draws[3] * (2 * tall + 1)), int(draws[4] * (2 * wide + 1))
    return padded[:, top : top + height, left : left + width]


def _jitter(picture: npt.NDArray[np.float32], draws: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Change brightness, contrast and saturation of a picture from 0 to 1; transparency stays."""
    brightness, contrast, saturation = (np.float32(1 + _JITTER * (2 * draw - 1)) for draw in draws)
    colours = picture[:3] * brightness
    colours = (colours - colours.mean()) * contrast + colours.mean()
    if len(colours) == 3:
        grey = np.tensordot(_GREY, colours, 1)
        colours = grey + (colours - grey) * saturation
    changed: npt.NDArray[np.float32] = np.clip(colours, 0, 1)
    return np.concatenate([changed, picture[3:]]) if len(picture) == 4 else changed
