"""Decodes one picture file of any mode and orientation, within the memory limit."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sources.common import FAULTS, Array
from sources.jpeg_frames import DecodedTables, JpegFrame, read_frame
from wsshards.errors import UserError
from wsshards.picture_decoding import (
    ALPHA,
    CROP,
    FORMATS,
    MODES,
    convert_picture,
    find_orientation,
    find_scale,
    find_size,
    fit_picture,
    fit_pixels,
    shrink_while_decoding,
    turn_picture,
)
from wsshards.pictures import STORED_FORMATS
from wsshards.regular_files import open_regular, read_regular
from wssources.request import ROW_SHARE, Request, unreadable

_LEAST = 16 << 20  # bytes of an image file that are read under any memory limit
_SHARE = 6  # of the memory limit: what one decoded picture may take, as it is copied when it is converted
_ALONE = 64  # of the memory limit: a picture that takes more is decoded while no other such is
_TILE_WIDTH, _TILE_HEIGHT = 322, 323  # tags of TIFF
_SCAN = b"\xff\xda"  # begins one
_MAX_SCANS = 200
_GREY = frozenset(["1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N"])
_COVER = 8 / 7  # a kept file's shorter side against the picture's: 256 pixels for 224, room for random crops
_METADATA = 64 << 10  # bytes beside the picture that a kept file may have
_HEAD = 4 << 10  # bytes of a file that hold the size of most pictures
_QUALITY = 90  # of a JPEG that is written again
_LARGE = threading.Lock()


@dataclass(frozen=True)
class PictureFormat:
    """What every picture is brought to: `(channels, height, width)`, and how."""

    shape: tuple[int, int, int]
    resize: str = CROP


def survey_picture(request: Request, file: Path) -> tuple[tuple[int, int], bool]:
    """Return the height and width of a picture as it is seen, and whether it is grey, from its header.

    Raises:
        UserError: it is not a picture.
    """
    with reading_errors(request, file), open_regular(file) as stream:
        frame = read_frame(stream.peek(_HEAD))
        if frame is not None:
            return frame.size[::-1], frame.mode in _GREY
        with _image().open(stream, formats=FORMATS) as picture:
            return _survey(picture)


def _survey(picture: Any) -> tuple[tuple[int, int], bool]:
    width, height = picture.size
    size = (width, height) if find_orientation(picture) >= 5 else (height, width)
    return size, picture.mode in _GREY


def read_picture(request: Request, file: Path, form: PictureFormat) -> Array:
    """Decode the first image in a file to uint8 `[channels, height, width]`.

    Raises:
        UserError: it is damaged, no picture, or takes too much memory.
    """
    with _decoded(request, file, form, _read(request, file)) as (picture, turns, _):
        return fit_pixels(picture, turns, form.shape, form.resize)


def read_encoded(
    request: Request, file: Path, form: PictureFormat, known: DecodedTables
) -> tuple[bytes, bool]:
    """Return a JPEG or PNG of the first image in a file, and whether it is the file itself.

    A picture that is much larger than `form` is made smaller in its own proportions. One that can be kept is
    decoded only to see that it can be, unless `known` says so.

    Raises:
        UserError: as in :func:`read_picture`.
    """
    data = _read(request, file)
    frame = read_frame(data)
    if frame is not None and _can_keep(request, frame, form, len(data)) and known.cover(frame, data):
        return data, True
    with _decoded(request, file, form, data) as (picture, turns, original):
        size = find_size(form.shape, turns)
        if form.resize != CROP:
            smaller = fit_picture(picture, size, form.resize)
        else:
            scale = find_scale(picture.size, size, CROP) * _COVER
            sides = tuple(max(1, round(side * scale)) for side in picture.size)
            smaller = picture if scale >= 1 else picture.resize(sides, _image().Resampling.BILINEAR)
        if original and smaller is picture and turns == 1 and len(original) <= _most_bytes(picture.size):
            if frame is not None:
                known.add(frame)
            return original, True
        return _encode(turn_picture(smaller, turns)), False


def _can_keep(request: Request, frame: JpegFrame, form: PictureFormat, size: int) -> bool:
    """Whether a picture is kept as it is if it can be decoded, and is small enough to be decoded anywhere."""
    wanted = (form.shape[2], form.shape[1])
    large_enough = find_scale(frame.size, wanted, CROP) * _COVER >= 1
    if frame.mode != MODES[form.shape[0]] or not (
        large_enough if form.resize == CROP else frame.size == wanted
    ):
        return False
    most = min(_most_bytes(frame.size), request.memory // _ALONE)
    return size <= most and frame.size[0] * frame.size[1] * form.shape[0] <= request.memory // _ALONE


def _most_bytes(size: tuple[int, int]) -> int:
    """Return how large a file may be to be kept: more than its pixels, and it holds other things."""
    return size[0] * size[1] * 4 + _METADATA


def _encode(picture: Any) -> bytes:
    target = io.BytesIO()
    if picture.mode == "RGBA":
        picture.save(target, "PNG")
    else:
        picture.save(target, "JPEG", quality=_QUALITY)
    return target.getvalue()


@contextmanager
def _decoded(
    request: Request, file: Path, form: PictureFormat, data: bytes
) -> Iterator[tuple[Any, int, bytes]]:
    """Yield the image in the channels of `form`, its orientation, and its file if that can be kept."""
    with reading_errors(request, file), _image().open(io.BytesIO(data), formats=FORMATS) as picture:
        turns, size, mode = find_orientation(picture), picture.size, picture.mode
        progressive = bool(picture.info.get("progressive"))
        shrink_while_decoding(picture, find_size(form.shape, turns), form.resize)
        need = _check_memory(request, file, picture, size, progressive=progressive)
        _check_pieces(picture, data, request)
        with _LARGE if need > request.memory // _ALONE else nullcontext():
            picture.load()
            plain = convert_picture(picture, MODES[form.shape[0]])
        keep = picture.format in STORED_FORMATS and mode == plain.mode and picture.size == size
        yield plain, turns, data if keep else b""


def _read(request: Request, file: Path) -> bytes:
    with reading_errors(request, file):
        # An uncompressed image takes as much as its row, and its metadata takes little.
        return read_regular(file, max(_LEAST, 4 * request.memory // ROW_SHARE))


def _check_memory(
    request: Request, file: Path, picture: Any, size: tuple[int, int], *, progressive: bool
) -> int:
    """Return the bytes that the decoded picture takes; raises UserError if they are too many."""
    width, height = picture.size
    channels = 1 if picture.mode in _GREY else 4 if picture.mode in ALPHA else 3
    need = width * height * channels
    if progressive:  # its decoder holds two bytes of each value at full size
        need = max(need, size[0] * size[1] * channels * 2)
    if need > request.memory // _SHARE:
        limit, least = request.memory >> 20, -(-need * _SHARE >> 20)
        raise UserError(
            f"picture `{request.show(file)}` of {size[0]}×{size[1]} pixels takes {need:,} bytes, and a"
            f" `memory_limit_mib` of {limit:,} has room for {request.memory // _SHARE:,}",
            f"make it smaller, or give a `memory_limit_mib` of at least {least:,}",
        )
    return need


def _check_pieces(picture: Any, data: bytes, request: Request) -> None:
    """Raise ValueError for an image whose pieces are larger, or more numerous, than it needs."""
    if picture.format == "TIFF":
        width, height = (picture.tag_v2.get(tag, 0) for tag in (_TILE_WIDTH, _TILE_HEIGHT))
        if width * height * 4 > request.memory // ROW_SHARE:
            raise ValueError(f"it is cut in tiles of {width}×{height} pixels")
    # Each scan of a JPEG covers the whole image; a progressive JPEG has about ten.
    if picture.format in {"JPEG", "MPO"} and (scans := data.count(_SCAN)) > _MAX_SCANS:
        raise ValueError(f"it has {scans:,} scans, and may have {_MAX_SCANS}")


@contextmanager
def reading_errors(request: Request, file: Path) -> Iterator[None]:
    """Say in one sentence what a library raises for a damaged picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except UnidentifiedImageError:
        name, empty = request.show(file), file.stat().st_size == 0
        raise unreadable(name, "it is empty" if empty else "it is not a picture of a known format") from None
    except (*FAULTS, Image.DecompressionBombError) as error:
        raise unreadable(request.show(file), error) from None


def _image() -> Any:
    from PIL import Image  # only this source needs it

    Image.MAX_IMAGE_PIXELS = None  # checked against the memory limit, with one sentence
    return Image


def silence_warnings() -> None:
    """Keep Pillow's warnings out of the log: a fault in an image is reported in one sentence."""
    warnings.filterwarnings("ignore", module="PIL")
