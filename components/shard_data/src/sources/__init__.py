"""Finds the files of a source and the reader for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from sources.common import Batch, Source, rows_per_batch
from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, Features
from wssources.documents import is_tokenized
from wssources.find_files import check_content, choose_files, find_files, name_source
from wssources.media_options import MediaOptions
from wssources.planned_rows import DIGITS, PYTHON_SOURCE, SOURCES
from wssources.request import Files, Request, check_row, suggest


def open_source(
    source: str,
    data: str,
    *,
    kind: str,
    label: str,
    features: tuple[str, ...],
    sequence_length: int,
    memory: int,
    media: MediaOptions,
) -> Source:
    """Open the stream of rows of a source.

    Args:
        source: `builtin:…`, or a path inside `data`; `.` means all of it.
        data: folder or file given as input, or empty.
        kind: one of `FORMATS`; `auto` detects it from the file names.
        label: label column or array.
        features: feature columns or array; empty means all except the label.
        sequence_length: tokens a language model predicts per row.
        memory: memory limit in bytes.
        media: how pictures and text are read.

    Raises:
        UserError: the source is unknown, missing, empty or in no known format, or its rows are too large.
    """
    if source.startswith("builtin:"):
        opened = _builtin(source, sequence_length, media, memory)
    else:
        request = partial(
            Request,
            label=label,
            features=features,
            sequence_length=sequence_length,
            memory=memory,
            media=media,
        )
        opened = _open_files(source, data, kind, request)
    width, dtype = opened.row_layout
    row_bytes = width * np.dtype(dtype).itemsize
    check_row(f"a row of `{source}`", row_bytes, memory)
    return opened


def _open_files(source: str, data: str, kind: str, request: partial[Request]) -> Source:
    root, names = find_files(source, data)
    media = request.keywords["media"]
    kind = "images" if kind == "auto" and media.labels else kind
    kind, wanted = choose_files(root, names, kind, name_source(source, root))
    chosen = request(root, Files(root, wanted))
    check_content(chosen, chosen.files[0], kind)
    if is_tokenized(kind, media):
        from sources.tokens import read_documents

        return read_documents(chosen, kind)
    return _readers()[kind](chosen)


def _readers() -> dict[str, Callable[[Request], Source]]:
    from sources import arrays, pictures, tables, text  # each imports its own library

    return {
        "csv": tables.read_csv,
        "parquet": tables.read_parquet,
        "jsonl": tables.read_jsonl,
        "npz": arrays.read_npz,
        "images": pictures.read_images,
        "text": text.read_text,
    }


def _builtin(source: str, sequence_length: int, media: MediaOptions, memory: int) -> Source:
    if source == DIGITS:
        return _digits()
    if source == PYTHON_SOURCE:
        from sources.text import python_request, read_python_source

        if is_tokenized("text", media):
            from sources.tokens import read_documents

            return read_documents(python_request(sequence_length, media, memory), "text")
        return read_python_source(sequence_length)
    raise UserError(f"unknown source `{source}`", suggest(source, SOURCES))


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
