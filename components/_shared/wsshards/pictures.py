"""Turns picture files into arrays of one size: the same code for the step that shards and for readers."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError

Array = npt.NDArray[Any]
STORED_FORMATS = ("JPEG", "PNG")  # of a picture that shards keep as a file
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels → Pillow's mode
CROP, STRETCH, PAD = "crop", "stretch", "pad"
RESIZES = (CROP, STRETCH, PAD)
_GAP = 2.0  # a JPEG is decoded to at least so many times the size that it is then resized to


class EncodedColumn:
    """A binary Arrow column of picture files: `column[rows]` copies some of them.

    Args:
        column: of the mapped file; raises TypeError if it is of another type or has gaps.
    """

    def __init__(self, column: Any) -> None:
        if str(column.type) != "binary" or column.null_count:
            raise TypeError(f"the column of pictures is {column.type}, not binary")
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> list[bytes]:
        return [self._column[row].as_buffer().to_pybytes() for row in rows.tolist()]


def decode_rows(files: Sequence[bytes], shape: tuple[int, ...]) -> Array:
    """Return pictures as uint8 `[n, width]`; errors are those of :func:`decode_picture`."""
    rows = np.empty((len(files), math.prod(shape)), np.uint8)
    for row, data in zip(rows, files, strict=True):
        row[:] = decode_picture(data, shape).reshape(-1)
    return rows


def decode_picture(data: bytes, shape: tuple[int, ...]) -> Array:
    """Decode a picture of a shard, scale it until it covers `shape`, and cut out the centre.

    Args:
        data: a JPEG or PNG file.
        shape: `(channels, height, width)`.

    Returns:
        uint8 `[channels, height, width]`; the same bytes always give the same array.

    Raises:
        UserError: it cannot be decoded.
    """
    picture = open_picture(data, shape)
    return to_array(fit_picture(picture, (shape[2], shape[1])))


def open_picture(data: bytes, shape: tuple[int, ...], *, shrink: bool = True) -> Any:
    """Decode a picture of a shard to a Pillow image with the channels of `shape`, at its own size.

    Args:
        data: a JPEG or PNG file.
        shape: `(channels, height, width)`.
        shrink: let the decoder halve a picture that stays larger than `shape`.

    Raises:
        UserError: it cannot be decoded.
    """
    from PIL import Image

    mode = MODES[shape[0]]
    try:
        picture: Any = Image.open(io.BytesIO(data), formats=STORED_FORMATS)
        if shrink:
            shrink_while_decoding(picture, (shape[2], shape[1]), CROP)
        picture.load()
        return picture if picture.mode == mode else picture.convert(mode)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(
            f"a picture of the shards cannot be decoded: {error}",
            "write the folder again with a `shard_data` step",
        ) from None


def shrink_while_decoding(picture: Any, size: tuple[int, int], resize: str) -> None:
    """Let the decoder of a JPEG halve it while it stays at least twice as large as it is needed."""
    scale = find_scale(picture.size, size, resize)
    wanted = tuple(math.ceil(side * scale * _GAP) for side in picture.size)
    if picture.format in ("JPEG", "MPO"):
        picture.draft(None, wanted)


def find_scale(old: tuple[int, int], new: tuple[int, int], resize: str) -> float:
    """Return the factor of `old` `(width, height)` for `new`: the larger covers it, the smaller fits in."""
    factors = (new[0] / old[0], new[1] / old[1])
    return min(factors) if resize == PAD else max(factors)


def fit_picture(picture: Any, size: tuple[int, int], resize: str = CROP) -> Any:
    """Bring a Pillow image to `size` `(width, height)`; one that has it is returned as it is.

    Args:
        picture: an image of a plain mode.
        size: width and height in pixels.
        resize: `crop` scales it until it covers the size and keeps the centre, `stretch` changes its
            proportions, `pad` scales it until it fits and adds black.
    """
    from PIL import Image

    if picture.size == size:
        return picture
    bilinear = Image.Resampling.BILINEAR  # Pillow averages over all pixels that fall into one
    if resize == STRETCH:
        return picture.resize(size, bilinear)
    scale = find_scale(picture.size, size, resize)
    if resize == PAD:
        inner = tuple(
            max(1, min(round(side * scale), most)) for side, most in zip(picture.size, size, strict=True)
        )
        canvas = Image.new(picture.mode, size)
        canvas.paste(
            picture.resize(inner, bilinear), tuple((a - b) // 2 for a, b in zip(size, inner, strict=True))
        )
        return canvas
    width, height = (min(new / scale, old) for new, old in zip(size, picture.size, strict=True))
    left, top = (picture.width - width) / 2, (picture.height - height) / 2
    return picture.resize(size, bilinear, box=(left, top, left + width, top + height))


def to_array(picture: Any) -> Array:
    """Return a Pillow image as uint8 `[channels, height, width]`."""
    pixels = np.asarray(picture, np.uint8)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
