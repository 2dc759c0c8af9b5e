"""Finds the files of a source and the reader for them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from sources.common import Batch, Source, rows_per_batch
from sources.downloads import download
from wsshards.errors import UserError
from wsshards.manifest import Features
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wssources.documents import is_tokenized
from wssources.find_files import check_content, choose_files, find_files, name_source
from wssources.input_error import suggest
from wssources.media_options import BYTES_TOKENIZER
from wssources.picture_labels import find_label_file
from wssources.planned_rows import DIGITS, SOURCES
from wssources.request import Files, Request, check_row
from wssources.source_urls import check_address, is_address, mask_address
from wssources.split_settings import check_built_in, check_without_columns
from wssources.tasks import check_possible
from wssources.unpack import is_described, unpack


def open_source(
    source: str, data: str, kind: str, request: Request, *, scratch: Path | None = None
) -> Source:
    """Open the stream of rows of a source.

    Args:
        source: `builtin:…`, or a path inside `data`; `.` means all of it.
        data: folder or file given as input, or empty.
        kind: one of `FORMATS`; `auto` detects it from the file names.
        request: what to read, still without root and files.
        scratch: empty folder for what is downloaded and unpacked, which the source needs until it is read.

    Raises:
        UserError: the source is unknown, missing, empty or in no known format, or its rows are too large.
    """
    if source.startswith("builtin:"):
        opened = _open_builtin(source, request)
    elif is_address(source):
        opened = _open_address(source, data, kind, request, scratch)
    else:
        opened = _open_files(source, data, kind, request, scratch)
    width, dtype = opened.row_layout
    check_row(f"a row of `{mask_address(source)}`", width * np.dtype(dtype).itemsize, request.memory)
    return opened


def _open_address(source: str, data: str, kind: str, request: Request, scratch: Path | None) -> Source:
    check_address(source, data)
    return _open_files(".", str(download(source, _make_folder(scratch))), kind, request, scratch)


def _make_folder(scratch: Path | None) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch))


def _open_files(source: str, data: str, kind: str, request: Request, scratch: Path | None) -> Source:
    root, names = find_files(source, data)
    if is_described(root, kind):
        unpacked = unpack(root, _make_folder(scratch), fetch=download)
        kinds = unpacked.column_kinds(request.column_types)
        request = request._replace(column_types=kinds, split=unpacked.divide(request.split))
        source, (root, names) = ".", find_files(".", str(unpacked.root))
    kind = "images" if kind == "auto" and request.media.labels else kind
    called = name_source(source, root)
    kind, wanted = choose_files(root, names, kind, called)
    chosen = request._replace(root=root, files=Files(root, wanted))
    check_content(chosen, chosen.files[0], kind)
    tokenized = is_tokenized(kind, chosen.media, chosen.task)
    if kind == "text" or (kind == "images" and find_label_file(chosen) is None):
        check_without_columns(chosen.split, called, kind)
    if tokenized:
        from sources.tokens import read_documents

        return replace(read_documents(chosen, kind), kind=kind)
    if kind == "text":
        check_possible(chosen.task, LANGUAGE_MODEL, called)
    return replace(_readers()[kind](chosen), kind=kind)


def _readers() -> dict[str, Callable[[Request], Source]]:
    # Each imports its own library.
    from sources import arrays, csv_tables, json_tables, parquet_tables, pictures, text

    return {
        "csv": csv_tables.read_csv,
        "parquet": parquet_tables.read_parquet,
        "jsonl": json_tables.read_jsonl,
        "npz": arrays.read_npz,
        "images": pictures.read_images,
        "text": text.read_text,
    }


def _open_builtin(source: str, request: Request) -> Source:
    if source not in SOURCES:
        raise UserError(f"unknown source `{source}`", suggest(source, SOURCES))
    check_built_in(request.split, source, "images" if source == DIGITS else "text")
    if source == DIGITS:
        check_possible(request.task, CLASSIFICATION, source)
        return _digits()
    check_possible(request.task, LANGUAGE_MODEL, source)
    from sources.text import find_python_files, read_python_source

    if request.media.tokenizer == BYTES_TOKENIZER:
        return read_python_source(request)
    from sources.tokens import read_documents

    return read_documents(find_python_files(request), "text")


def _digits() -> Source:
    """scikit-learn's 1,797 handwritten digits as `[1, 8, 8]` images from 0 to 1."""

    def batches() -> Iterator[Batch]:
        import pyarrow as pa
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels = (digits.data / 16).astype(np.float32)
        step = rows_per_batch(pixels.shape[1] * 4)
        for start in range(0, len(pixels), step):
            yield Batch(pixels[start : start + step], pa.array(digits.target[start : start + step]))

    return Source(CLASSIFICATION, Features("features", "float32", (1, 8, 8)), "label", batches)
