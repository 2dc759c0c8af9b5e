"""Images of any size and mode, labelled by their folders or by a CSV; stored as pixels or as files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blobs import BlobFile, BlobRow, find_file, hash_content

from sources.common import Array, Batch, Source, rows_per_batch
from sources.jpeg_frames import DecodedTables
from sources.picture_files import (
    PictureFormat,
    read_encoded,
    read_picture,
    reading_errors,
    silence_warnings,
    survey_picture,
)
from wsshards.errors import UserError
from wsshards.manifest import Features
from wsshards.terms import CLASSIFICATION
from wssources.media_options import parse_image_size
from wssources.picture_folders import check_folders, find_class
from wssources.picture_labels import PictureLabels, find_label_file, read_picture_labels
from wssources.request import Request, check_row
from wssources.split import hash_rows
from wssources.split_settings import find_parts, fixed_parts
from wssources.tasks import Decision, check_possible

_LARGEST, _SMALLEST, _STEP = 224, 32, 32  # pixels of a side that pictures of mixed sizes are brought to
_KEPT = 1024  # pixels of the longer side up to which a size that all pictures have is kept
_SHOWN = 10  # names of broken pictures that are printed
_GROUP = 1024  # pictures decoded at a time, at most
_CHUNK = 16  # of them that a thread takes: handing one over costs as much as reading it
_CHANNELS = {"grey": 1, "rgb": 3, "rgba": 4}
Item = TypeVar("Item")


class _Broken:
    """The pictures that cannot be read, and what is done about them."""

    def __init__(self, request: Request) -> None:
        self._skip, self._total = request.media.broken_images == "skip", len(request.files)
        self._first: UserError | None = None
        self._names: list[str] = []
        self.lost: Counter[str] = Counter()

    def add(self, name: str, error: UserError) -> None:
        self._first = self._first or error
        self.lost[""] += 1
        if len(self._names) < _SHOWN:
            self._names.append(name)

    @property
    def count(self) -> int:
        return self.lost[""]

    @property
    def stops(self) -> bool:
        """Whether nothing is to be written, as there are broken pictures and they are not skipped."""
        return self._first is not None and not self._skip

    def finish(self) -> None:
        """Raise the UserError, or print which were skipped."""
        if self._first is None:
            return
        if not self._skip or self.count == self._total:
            more = self.count - 1
            said = f", and {more:,} more of {self._total:,} pictures cannot be used" if more else ""
            remedy = (
                self._first.help if self._total == 1 else f"{self._first.help}, or say `broken_images: skip`"
            )
            raise UserError(f"{self._first.message}{said}", remedy)
        rest = self.count - len(self._names)
        names = ", ".join(f"`{name}`" for name in self._names) + (f" and {rest:,} more" if rest else "")
        print(f"skipped {self.count:,} of {self._total:,} pictures, which cannot be read: {names}")


def read_images(request: Request) -> Source:
    """Read pictures with a folder for each class (`cats/1.png`, `dogs/a/2.png`), or with a CSV of labels.

    Raises:
        UserError: a picture has no label, a class is empty, or no image can be read.
    """
    silence_warnings()
    labels, decision = _read_labels(request)
    if labels is None:
        check_possible(request.task, CLASSIFICATION, request.name)
        check_folders(request)
    elif labels.files is not None:
        request = labels.choose(request)
    form = _choose_format(request)
    encoded = request.media.image_storage == "jpeg"
    blob = BlobFile(request.show) if encoded else None
    broken = _Broken(request)
    features = Features(
        "features",
        "float32",
        form.shape,
        stored="uint8",
        scale=1 / 255,
        encoded=encoded,
        resize=form.resize,
    )
    if encoded:  # the shards hold files, but a reader makes rows of pixels of them
        check_row(f"a row of `{request.root.name}`", features.width, request.memory)

    parts = find_parts(request) if labels is None else {}

    def batches() -> Iterator[Batch]:
        for files, rows in _read_groups(request, form, features.width, broken):
            values = _label_rows(request, labels, files)
            places, hashes = _divide(labels, parts, files)
            if blob is not None:
                references = blob.append(rows)
                identity = np.ascontiguousarray(references[:, 2:])
                hashes = hash_rows(identity, request.seed) if hashes is None else hashes
                yield Batch(references, values, hashes, places)
            else:
                yield Batch(np.stack(rows).reshape(len(rows), -1), values, hashes, places)

    if labels is None or decision is None:
        fixed = fixed_parts(None, parts.values())
        return Source(CLASSIFICATION, features, "label", batches, blob=blob, fixed=fixed, lost=broken.lost)
    return Source(
        decision.task,
        features,
        labels.columns[0],
        batches,
        labels=labels.columns,
        classes=labels.find_classes(decision),
        decision=decision,
        fixed=labels.fixed,
        bounds=labels.bounds,
        grouped=bool(request.split and request.split.by),
        blob=blob,
        lost=broken.lost,
    )


def _label_rows(request: Request, labels: PictureLabels | None, files: Sequence[Path]) -> Any:
    """Return the labels of pictures: by their folders, or of a CSV."""
    if labels is not None:
        return labels.to_arrow(files)
    return pa.array([find_class(request, file) for file in files])


def _divide(
    labels: PictureLabels | None, parts: Mapping[Path, int], files: Sequence[Path]
) -> tuple[npt.NDArray[np.uint8] | None, npt.NDArray[np.uint64] | None]:
    """Return the parts `[n]` that pictures are put in, and the keys `[n]` that divide them, or None."""
    find = labels.find_part if labels is not None and labels.parts else None
    places = [find(file) if find else parts[file] for file in files] if find or parts else None
    keys = [labels.find_key(file) for file in files] if labels and labels.keys else None
    return (
        None if places is None else np.array(places, np.uint8),
        None if keys is None else np.array(keys, np.uint64),
    )


def _read_labels(request: Request) -> tuple[PictureLabels | None, Decision | None]:
    """Return the labels of a CSV, if there is one, and what is learned from them."""
    file = find_label_file(request)
    if file is None:
        return None, None
    labels = read_picture_labels(request, file)
    return labels, labels.decide(request.task, request.show(file))


def _read_groups(
    request: Request, form: PictureFormat, width: int, broken: _Broken
) -> Iterator[tuple[list[Path], list[Any]]]:
    """Yield pictures in groups, as long as none is broken that must not be."""
    known = DecodedTables()

    def read_file(file: Path) -> BlobRow:
        with reading_errors(request, file):
            before = find_file(file)
        content, whole = read_encoded(request, file, form, known)
        return hash_content(content, before if whole else None)

    def read_pixels(file: Path) -> Array:
        return read_picture(request, file, form)

    read = read_file if request.media.image_storage == "jpeg" else read_pixels
    files = iter(request.files)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        while group := list(islice(files, min(_GROUP, rows_per_batch(width)))):
            good: list[tuple[Path, Any]] = []
            for file, result in zip(group, _attempt_all(pool, read, group), strict=True):
                if isinstance(result, UserError):
                    broken.add(request.show(file), result)
                else:
                    good.append((file, result))
            if good and not broken.stops:
                yield [file for file, _ in good], [row for _, row in good]
    broken.finish()


def _attempt_all(
    pool: ThreadPoolExecutor, read: Callable[[Path], Item], files: Sequence[Path]
) -> Iterator[Item | UserError]:
    """Yield what is read of each file, or why it cannot be, in order."""

    def read_some(start: int) -> list[Item | UserError]:
        return [_attempt(read, file) for file in files[start : start + _CHUNK]]

    for results in pool.map(read_some, range(0, len(files), _CHUNK)):
        yield from results


def _attempt(read: Callable[[Path], Item], file: Path) -> Item | UserError:
    try:
        return read(file)
    except UserError as error:
        return error


def _choose_format(request: Request) -> PictureFormat:
    """Return the size and channels of all pictures: as asked for, or by their headers."""
    media = request.media
    size = parse_image_size(media.image_size)
    if size is not None and media.image_mode != "auto":
        return PictureFormat((_CHANNELS[media.image_mode], *size), media.image_resize)
    sizes: Counter[tuple[int, int]] = Counter()
    grey = True
    first_error: UserError | None = None
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        files = iter(request.files)
        while group := list(islice(files, _GROUP)):
            for result in _attempt_all(pool, partial(survey_picture, request), group):
                if isinstance(result, UserError):
                    first_error = first_error or result
                    continue
                sizes[result[0]] += 1
                grey = grey and result[1]
                if len(sizes) > _GROUP:  # only their shorter sides matter from now on
                    sizes = _shorter_sides(sizes)
    if not sizes and first_error is not None:
        raise first_error
    channels = _CHANNELS[media.image_mode] if media.image_mode != "auto" else (1 if grey else 3)
    return PictureFormat((channels, *(size or _choose_size(sizes))), media.image_resize)


def _shorter_sides(sizes: Counter[tuple[int, int]]) -> Counter[tuple[int, int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for (height, width), count in sizes.items():
        counts[min(height, width), min(height, width)] += count
    return counts


def _choose_size(sizes: Counter[tuple[int, int]]) -> tuple[int, int]:
    """Return the size that all have if it is small, or a square that at least half of the pictures cover."""
    if len(sizes) == 1 and max(next(iter(sizes))) <= _KEPT:
        return next(iter(sizes))
    sides = sorted(_shorter_sides(sizes).items())
    half, seen, median = sum(sizes.values()) / 2, 0, 0
    for (side, _), count in sides:
        seen += count
        median = side
        if seen >= half:
            break
    side = min(_LARGEST, median // _STEP * _STEP if median >= _SMALLEST else median)
    return side, side
