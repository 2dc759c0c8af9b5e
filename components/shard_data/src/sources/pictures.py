"""Images in one folder per class: decoded in parallel, stored as bytes, read as numbers from 0 to 1."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sources.common import FAULTS, Array, Batch, Source, rows_per_batch
from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, Features
from wsshards.regular_files import read_regular
from wssources.picture_folders import check_folders, describe_mixed, find_class
from wssources.request import ROW_SHARE, Request, check_row, unreadable

_FORMATS = (
    "BMP",
    "GIF",
    "JPEG",
    "PNG",
    "PPM",
    "TIFF",
    "WEBP",
)  # no other format is tried, regardless of the file's name
_LEAST = 16 << 20  # bytes of an image file that are read under any memory limit
_TILE_WIDTH, _TILE_HEIGHT = 322, 323  # tags of TIFF
_SCAN = b"\xff\xda"  # begins one
_MAX_SCANS = 200
# Modes that are not plain channels are converted to the mode that loses nothing.
_PLAIN = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB", "LA": "RGBA", "PA": "RGBA"}


def read_images(request: Request) -> Source:
    """Read a folder with one folder of images per class: `cats/1.png`, `dogs/a/2.png`.

    Raises:
        UserError: an image is outside a class folder, a class is empty, or an image cannot be read.
    """
    check_folders(request)
    warnings.filterwarnings("ignore", module="PIL")  # a fault in an image is reported in one sentence
    first = _decode(request, request.files[0])
    shape = _shape(first)
    features = Features("features", "float32", shape, stored="uint8", scale=1 / 255)

    def batches() -> Iterator[Batch]:
        files = iter(request.files)
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            while group := list(islice(files, min(1024, rows_per_batch(features.width)))):
                pictures = list(pool.map(lambda file: _decode(request, file), group))
                for file, picture in zip(group, pictures, strict=True):
                    if picture.shape != first.shape:
                        raise describe_mixed(request, file, _shape(picture), (request.files[0], shape))
                stacked = np.stack(pictures).reshape(len(group), first.shape[0], first.shape[1], -1)
                rows = np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)).reshape(len(group), -1)
                yield Batch(rows, pa.array([find_class(request, file) for file in group]))

    return Source(CLASSIFICATION, features, "label", batches)


def _decode(request: Request, file: Path) -> Array:
    """Decode the first image in a file to bytes, `[height, width]` or `[height, width, channels]`."""
    from PIL import Image, UnidentifiedImageError  # only this source needs it

    name = request.show(file)
    try:
        # An uncompressed image takes as much as its row, and its metadata takes little.
        data = read_regular(file, max(_LEAST, 4 * request.memory // ROW_SHARE))
        Image.MAX_IMAGE_PIXELS = None  # checked below against the memory limit, with one sentence
        with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
            mode = _PLAIN.get(picture.mode, picture.mode)
            if mode not in {"L", "RGB", "RGBA"}:
                raise UserError(
                    f"picture `{name}` has mode {mode}, not 8 bits a channel",
                    "convert it to grey, RGB or RGBA with 8 bits a channel",
                )
            pixels = f"picture `{name}` of {picture.width}×{picture.height} pixels"
            check_row(pixels, picture.width * picture.height * len(mode), request.memory)
            _check_pieces(picture, data, request)
            return np.asarray(picture if mode == picture.mode else picture.convert(mode), np.uint8)
    except UnidentifiedImageError:
        raise unreadable(name, "it is not a picture of a known format") from None
    except (*FAULTS, Image.DecompressionBombError) as error:
        raise unreadable(name, error) from None


def _check_pieces(picture: Any, data: bytes, request: Request) -> None:
    """Raise ValueError for an image whose pieces are larger, or more numerous, than it needs."""
    if picture.format == "TIFF":
        width, height = (picture.tag_v2.get(tag, 0) for tag in (_TILE_WIDTH, _TILE_HEIGHT))
        if width * height * 4 > request.memory // ROW_SHARE:
            raise ValueError(f"it is cut in tiles of {width}×{height} pixels")
    # Each scan of a JPEG covers the whole image; a progressive JPEG has about ten.
    if picture.format in {"JPEG", "MPO"} and (scans := data.count(_SCAN)) > _MAX_SCANS:
        raise ValueError(f"it has {scans:,} scans, and may have {_MAX_SCANS}")


def _shape(picture: Array) -> tuple[int, ...]:
    channels = 1 if picture.ndim == 2 else picture.shape[2]
    return (channels, picture.shape[0], picture.shape[1])
