"""Finds the files of a source and the reader for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from sources.common import Batch, Source, rows_per_batch
from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, Features
from wssources.find_files import check_content, choose_files, find_files, name_source
from wssources.planned_rows import DIGITS, PYTHON_SOURCE, SOURCES
from wssources.request import REFUSE, Files, Request, check_row, suggest
from wssources.split_settings import SplitSettings
from wssources.tasks import AUTO


def open_source(
    source: str,
    data: str,
    *,
    kind: str,
    label: str,
    features: tuple[str, ...],
    sequence_length: int,
    memory: int,
    task: str = AUTO,
    missing: str = REFUSE,
    column_types: Mapping[str, str] | None = None,
    split: SplitSettings | None = None,
    seed: int = 0,
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
        task: what is to be learned; `auto` decides by the label.
        missing: what is done about rows of a table without a value.
        column_types: kinds of columns of a table that are not decided by their values.
        split: what divides the rows.
        seed: of the hash of a row.

    Raises:
        UserError: the source is unknown, missing, empty or in no known format, or its rows are too large.
    """
    if source.startswith("builtin:"):
        opened = _builtin(source, sequence_length)
        _check_plain(opened, source, task, split)
    else:
        request = partial(
            Request,
            label=label,
            features=features,
            sequence_length=sequence_length,
            memory=memory,
            task=task,
            missing=missing,
            column_types=column_types or {},
            split=split,
            seed=seed,
        )
        opened = _open_files(source, data, kind, request)
    row_bytes = opened.features.width * np.dtype(opened.features.disk_dtype).itemsize
    check_row(f"a row of `{source}`", row_bytes, memory)
    return opened


def _open_files(source: str, data: str, kind: str, request: Callable[[Path, Files], Request]) -> Source:
    root, names = find_files(source, data)
    kind, wanted = choose_files(root, names, kind, name_source(source, root))
    chosen = request(root, Files(root, wanted))
    check_content(chosen, chosen.files[0], kind)
    opened = _readers()[kind](chosen)
    if kind in ("images", "text"):
        _check_plain(opened, name_source(source, root), chosen.task, chosen.split)
    return opened


def _check_plain(opened: Source, called: str, task: str, split: SplitSettings | None) -> None:
    """Refuse inputs that are about tables for data that is none; raises UserError."""
    if task not in (AUTO, opened.task):
        raise UserError(
            f"`task` is `{task}`, and `{called}` is data for `{opened.task}`",
            f"leave `task` out, or say `task: {opened.task}`",
        )
    if split is not None and (split.columns or split.by_time or split.given):
        name = "split_by" if split.by else "split" if split.given else "split_time"
        raise UserError(
            f"`{name}` divides the rows of tables, and `{called}` is none",
            "use `validation_fraction` and `test_fraction`",
        )


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


def _builtin(source: str, sequence_length: int) -> Source:
    if source == DIGITS:
        return _digits()
    if source == PYTHON_SOURCE:
        from sources.text import read_python_source

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
