"""Pictures in one folder per class: decoded in parallel, kept as bytes, read as numbers from 0 to 1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from sources.common import Array, Batch, Request, Source, rows_per_batch, unreadable
from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, Features

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Modes without a plain meaning as channels become the one that loses nothing.
_PLAIN = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB", "LA": "RGBA", "PA": "RGBA"}


def read_images(request: Request) -> Source:
    """Rows of a folder with one folder of pictures per class: `cats/1.png`, `dogs/a/2.png`.

    Raises:
        UserError: a picture lies outside a class folder, a class is empty, or a picture cannot be read.
    """
    for file in request.files:
        if request.root in {file, file.parent}:
            raise UserError(
                f"picture `{request.show(file)}` is in no class folder",
                "put each picture in a folder named for its class",
            )
    _no_empty_class(request)
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
                        raise _mixed(request, file, picture, first)
                stacked = np.stack(pictures).reshape(len(group), first.shape[0], first.shape[1], -1)
                rows = np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)).reshape(len(group), -1)
                yield Batch(rows, pa.array([_class_of(request, file) for file in group]))

    return Source(CLASSIFICATION, features, "label", batches)


def _class_of(request: Request, file: Path) -> str:
    return file.relative_to(request.root).parts[0]


def _no_empty_class(request: Request) -> None:
    filled = {_class_of(request, file) for file in request.files}
    for folder in sorted(request.root.iterdir()):
        if folder.is_dir() and not folder.name.startswith(".") and folder.name not in filled:
            raise UserError(
                f"class folder `{folder.name}` holds no picture", "add pictures or remove the folder"
            )


def _decode(request: Request, file: Path) -> Array:
    """The pixels of a picture, `[height, width]` or `[height, width, channels]` bytes."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  only this source needs it

    try:
        with Image.open(file) as picture:
            plain = picture.convert(_PLAIN[picture.mode]) if picture.mode in _PLAIN else picture
            if plain.mode not in {"L", "RGB", "RGBA"}:
                raise UserError(
                    f"picture `{request.show(file)}` has mode {plain.mode}, not 8 bits a channel",
                    "convert it to grey, RGB or RGBA with 8 bits a channel",
                )
            return np.asarray(plain, np.uint8)
    except UnidentifiedImageError:
        raise unreadable(request.show(file), "it is not a picture of a known format") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise unreadable(request.show(file), error) from None


def _shape(picture: Array) -> tuple[int, ...]:
    channels = 1 if picture.ndim == 2 else picture.shape[2]
    return (channels, picture.shape[0], picture.shape[1])


def _mixed(request: Request, file: Path, found: Array, first: Array) -> UserError:
    (ours, theirs), names = (_shape(found), _shape(first)), {1: "grey", 3: "RGB", 4: "RGBA"}
    other = request.show(request.files[0])
    if ours[1:] != theirs[1:]:
        sizes = f"{ours[2]}×{ours[1]} pixels, and `{other}` {theirs[2]}×{theirs[1]}"
        return UserError(f"picture `{request.show(file)}` has {sizes}", "resize all pictures to one size")
    return UserError(
        f"picture `{request.show(file)}` is {names[ours[0]]}, and `{other}` is {names[theirs[0]]}",
        "convert all pictures to one mode",
    )
