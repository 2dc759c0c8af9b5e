"""Turns the picture files of shards into arrays of one size."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wsshards.errors import UserError
from wsshards.picture_decoding import CROP, MODES, fit_picture, shrink_while_decoding, to_array

Array = npt.NDArray[Any]
STORED_FORMATS = ("JPEG", "PNG")  # of a picture that shards keep as a file


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


def decode_rows(files: Sequence[bytes], shape: tuple[int, ...], dtype: str, scale: float) -> Array:
    """Return pictures as `[n, channels, height, width]`, pixels times `scale`.

    Each goes straight to its place in the batch: a batch of bytes beside it would be touched once and freed.
    Errors are those of :func:`decode_picture`.
    """
    rows = np.empty((len(files), *shape), dtype)
    factor = np.dtype(dtype).type(scale)
    for row, data in zip(rows, files, strict=True):
        np.multiply(decode_picture(data, shape), factor, out=row, dtype=dtype)
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
