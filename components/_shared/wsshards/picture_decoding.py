"""Brings pictures of any mode, size and orientation to one form: for sharding and for exported models alike.

This file travels with the exported model of pictures and imports none of our packages.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# No other format is tried, regardless of the file's name.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels → Pillow's mode
CROP, STRETCH, PAD = "crop", "stretch", "pad"
RESIZES = (CROP, STRETCH, PAD)
ALPHA = frozenset(["LA", "La", "RGBA", "RGBa", "PA"])
_GAP = 2.0  # a JPEG is decoded to at least so many times the size that it is then resized to
_ORIENTATION = 0x0112  # tag of EXIF
_FAULTS = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    SyntaxError,
    TypeError,
    KeyError,
    struct.error,
    zlib.error,
)


def decode_file(data: bytes, shape: tuple[int, int, int], resize: str) -> Array:
    """Decode the first image in a file to uint8 `[channels, height, width]`.

    Raises:
        ValueError: it is damaged, or no picture.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            return decode_image(picture, shape, resize)
    except (*_FAULTS, Image.DecompressionBombError) as error:
        raise ValueError(f"it cannot be decoded: {error}") from None


def decode_image(picture: Any, shape: tuple[int, int, int], resize: str) -> Array:
    """Bring an opened Pillow image to uint8 `[channels, height, width]`."""
    turns = find_orientation(picture)
    shrink_while_decoding(picture, find_size(shape, turns), resize)
    return fit_pixels(convert_picture(picture, MODES[shape[0]]), turns, shape, resize)


def fit_pixels(picture: Any, turns: int, shape: tuple[int, int, int], resize: str) -> Array:
    """Return a converted image as it is seen, at its size: uint8 `[channels, height, width]`."""
    return to_array(turn_picture(fit_picture(picture, find_size(shape, turns), resize), turns))


def find_size(shape: tuple[int, int, int], turns: int) -> tuple[int, int]:
    """Return the `(width, height)` that a picture gets before it is turned."""
    return (shape[1], shape[2]) if turns >= 5 else (shape[2], shape[1])


def convert_picture(picture: Any, mode: str) -> Any:
    """Return a Pillow image in `mode`; what is transparent is seen on white if that has none."""
    from PIL import Image

    if picture.mode == mode:
        return picture
    if picture.mode == "F":
        raise ValueError("its values are fractions, not 8 or 16 bits a channel")
    if picture.mode.startswith("I"):
        values = np.asarray(picture)
        deep = picture.mode != "I" or values.max(initial=0) > 255
        picture = Image.fromarray(np.clip(values >> 8 if deep else values, 0, 255).astype(np.uint8))
    if picture.mode in ALPHA or (picture.mode == "P" and "transparency" in picture.info):
        picture = picture.convert("RGBA")
        if mode != "RGBA":
            white = Image.new("RGBA", picture.size, (255, 255, 255, 255))
            picture = Image.alpha_composite(white, picture)
    return picture if picture.mode == mode else picture.convert("RGB").convert(mode)


def find_orientation(picture: Any) -> int:
    """Return how the camera was held, 1 to 8, as EXIF has it; 1 where it cannot be read."""
    try:
        turns = picture.getexif().get(_ORIENTATION, 1)
    except _FAULTS:
        return 1
    return turns if isinstance(turns, int) and 1 <= turns <= 8 else 1


def turn_picture(picture: Any, turns: int) -> Any:
    """Return a Pillow image as it is seen, from the orientation that EXIF has."""
    from PIL import Image

    if turns == 1:
        return picture
    turn = Image.Transpose
    method = {
        2: turn.FLIP_LEFT_RIGHT,
        3: turn.ROTATE_180,
        4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE,
        6: turn.ROTATE_270,
        7: turn.TRANSVERSE,
        8: turn.ROTATE_90,
    }[turns]
    return picture.transpose(method)


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
