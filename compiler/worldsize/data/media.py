"""Reads a bounded part of local pictures and texts as `shard_data` reads all of it, up to the first fault."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from worldsize.base import limits
from worldsize.data.sample import MAX_BYTES, MAX_PICTURES, Sample, find_given_parts
from wsshards.errors import UserError
from wsshards.regular_files import check_regular, open_regular
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wssources import documents, picture_folders, picture_labels, row_faults
from wssources.input_error import InputError, blame_input
from wssources.media_options import BPE, BYTES_TOKENIZER
from wssources.part_counts import PartCounts, count_windows
from wssources.request import Request, unreadable
from wssources.split_settings import UNDECIDED, SplitSettings, check_without_columns, fixed_parts
from wssources.tasks import LabelValues, check_possible
from wssources.tokenizer_files import check_tokenizer_file

_BLOCK = 1 << 19  # characters of a document that its first block has at least
Shape = tuple[int, int, int]  # channels, or 0 where only the pixels tell; height; width
_PNG, _JPEG, _GIF, _BMP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", (b"GIF87a", b"GIF89a"), b"BM"
_OTHERS = (b"II", b"MM", b"RIFF", b"P")  # TIFF, WebP and PPM, which are not read here
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}  # by colour type: with a palette RGB, grey with alpha RGBA
_SEGMENTS = 200  # of a JPEG before its size; a picture of a camera has about ten
_CHUNKS = 2_000  # of a PNG
_CHECKSUMS = 8  # bytes behind the last pixel, which readers do without


def read_pictures(request: Request, sample: Sample) -> None:
    """Read the labels of pictures, and the sizes of some; raises UserError for the first fault."""
    sample.slug, sample.blamed = "data-column-missing", "labels"
    file = picture_labels.find_label_file(request)
    if file is not None:
        _read_picture_labels(request, sample, file)
    else:
        check_without_columns(request.split, request.name, "images")
        parts = find_given_parts(request)
        sample.slug, sample.blamed = "picture-invalid", ""
        check_possible(request.task, CLASSIFICATION, request.name)
        picture_folders.check_folders(request)
        sample.parts = PartCounts(request.split or SplitSettings(), fixed_parts(None, parts.values()))
        for each in request.files:
            name = picture_folders.find_class(request, each)
            sample.labels[name] += 1
            sample.parts.add(name, parts.get(each, UNDECIDED))
    sample.slug, sample.blamed = "picture-invalid", ""
    if request.media.broken_images == "skip":
        sample.complete = False
        return
    for file in request.files[:: -(-len(request.files) // MAX_PICTURES)]:
        limits.check_time()
        try:
            read_shape(file)
        except ValueError as error:
            fault = unreadable(request.show(file), error)
            raise UserError(fault.message, f"{fault.help}, or say `broken_images: skip`") from None


def _read_picture_labels(request: Request, sample: Sample, file: Path) -> None:
    """Count the labels of pictures in a CSV, if it is small."""
    if check_regular(file) > MAX_BYTES:
        sample.complete = False
        return
    columns = row_faults.csv_header(request, file)
    picture_labels.choose_label_columns(request, file, columns)
    sample.slug, sample.blamed = "data-row-invalid", "labels"
    labels = picture_labels.read_picture_labels(request, file)
    with blame_input("label-not-a-class", "label"):
        decision = labels.decide(request.task, request.show(file))
    sample.task = decision.task
    sample.parts = labels.count(decision, request.split or SplitSettings())
    if sample.task == CLASSIFICATION:
        sample.labels.update(values[0] for values in labels.values.values())
    else:
        sample.rows = len(labels.values)


def read_texts(request: Request, kind: str) -> Sample:
    """Read documents of text up to the first fault, or the bounds of this module."""
    sample = Sample(slug="data-column-missing")
    try:
        _read_texts(request, kind, sample)
    except InputError as error:
        sample.fault, sample.slug, sample.blamed = error, error.slug, error.blamed
    except UserError as error:
        sample.fault = error
    except ImportError:
        sample.complete = False  # Parquet, without pyarrow
    except OSError:
        sample.complete = False  # no permission, here
    return sample


def _read_texts(request: Request, kind: str, sample: Sample) -> None:
    if kind == "text":
        check_without_columns(request.split, request.name, "text")
    parts = find_given_parts(request)
    sample.blamed = "tokenizer"
    if request.media.tokenizer not in (BYTES_TOKENIZER, BPE):
        check_tokenizer_file(request.media)
    sample.blamed = "text"
    sample.task = documents.find_task(request, kind)
    labelled, found = sample.task == CLASSIFICATION, LabelValues(request.label)
    sample.slug, sample.blamed = "data-row-invalid", ""
    if labelled and kind == "text":
        documents.check_text_folders(request)
    bounds = documents.find_text_division(request, kind).bounds
    sample.parts = PartCounts(request.split or SplitSettings(), fixed_parts(bounds, parts.values()))
    size = 0
    for document in documents.read_corpus(request, kind, labelled=labelled):
        limits.check_time()
        block = next(document.blocks(), "")
        if labelled and not block.strip():
            raise UserError(f"`{document.name}` has no text", "remove it, or write its text into it")
        size += len(block.strip())
        if labelled:
            sample.labels[document.label] += 1
            sample.parts.add(document.label, document.part, document.group)
            found.add(document.label)
        sample.rows += 1
        if sample.full or size > MAX_BYTES:
            sample.complete = False
            return
    _check_size(request, sample, size, labelled=labelled)
    if labelled and kind != "text":
        documents.check_text_labels(request, found)
    sample.complete = labelled  # how many rows of tokens a corpus has is not known before it is read


def _check_size(request: Request, sample: Sample, size: int, *, labelled: bool) -> None:
    """Refuse documents that make no row; ``size`` are their characters."""
    if size == 0:
        raise UserError(f"`{request.called}` has no text", "give it at least one document")
    if not labelled and sample.rows == 1 and size <= min(request.sequence_length, _BLOCK):
        sample.slug = "data-too-few-rows"
        raise UserError(
            f"`{request.called}` has {size:,} characters of text, and a row has"
            f" {request.sequence_length + 1:,} tokens",
            "give more text, or a smaller `sequence_length`",
        )


def read_text_bytes(request: Request, sample: Sample) -> None:
    """Count the rows of files of text that are read as bytes; raises UserError."""
    check_without_columns(request.split, request.name, "text")
    check_possible(request.task, LANGUAGE_MODEL, request.name)
    sample.task = LANGUAGE_MODEL
    sample.parts = count_windows(request, find_given_parts(request))
    sample.rows = sum([*sample.parts.rows, *sample.parts.classes.values()])


def read_shape(path: Path) -> Shape | None:
    """Return the shape of a PNG, JPEG, GIF or BMP; None for another format.

    Raises:
        OSError: it cannot be opened.
        ValueError: it is no picture, or ends before its pixels.
    """
    with open_regular(path) as file:
        head = file.read(64)
        if head.startswith(_PNG):
            return _read_png(file, head)
        if head.startswith(_JPEG):
            return _read_jpeg(file)
        if head.startswith(_OTHERS):
            return None
        if not head.startswith((*_GIF, _BMP)):
            raise ValueError("it is not a picture of a known format" if head else "it is empty")
        if len(head) < 30:
            raise ValueError("it ends before the picture begins")
        if not head.startswith(_BMP):
            return (0, *struct.unpack_from("<HH", head, 6)[::-1])
        if struct.unpack_from("<I", head, 14)[0] < 40:  # of OS/2
            return None
        width, height, _, bits = struct.unpack_from("<iiHH", head, 18)
        return 3 if bits == 24 else 0, abs(height), width


def _read_png(file: IO[bytes], head: bytes) -> Shape:
    if len(head) < 33 or head[12:16] != b"IHDR":
        raise ValueError("it ends before the picture begins")
    width, height, _, colours = struct.unpack_from(">IIBB", head, 16)
    size, at, pixels = file.seek(0, 2), 8, False
    for _ in range(_CHUNKS):
        file.seek(at)
        start = file.read(8)
        if not pixels and (len(start) < 8 or start[4:] == b"IEND"):
            raise ValueError("it ends before the picture begins")
        if len(start) < 8 or start[4:] == b"IEND":
            break
        pixels = pixels or start[4:] == b"IDAT"
        at += 12 + int.from_bytes(start[:4], "big")
        if start[4:] == b"IDAT" and at > size + _CHECKSUMS:
            raise ValueError(f"it has {size:,} bytes, and its pixels end at byte {at:,}")
    return _PNG_CHANNELS.get(colours, 0), height, width


def _read_jpeg(file: IO[bytes]) -> Shape:
    for marker, content in _jpeg_segments(file):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if len(content) < 6:
                break
            _, height, width, channels = struct.unpack_from(">BHHB", content)
            return (1 if channels == 1 else 3), height, width
    raise ValueError("it ends before the picture begins")


def _jpeg_segments(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    at = 2
    for _ in range(_SEGMENTS):
        file.seek(at)
        head = file.read(4)
        if len(head) < 4 or head[0] != 0xFF:
            return
        if head[1] == 0xFF:  # a byte that fills
            at += 1
            continue
        length = int.from_bytes(head[2:], "big")
        yield head[1], file.read(min(length - 2, 16)) if length > 2 else b""
        at += 2 + length
