"""Finds the files of a source and the reader for them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from sources.common import Batch, Files, Request, Source, check_row, rows_per_batch, suggest, unreadable
from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, Features
from wsshards.regular_files import check_regular, list_files
from wssources.formats import PICTURES, TABLES
from wssources.planned_rows import DIGITS, PYTHON_SOURCE, SOURCES

_SUGGESTED = 10_000

FORMATS = ("auto", "csv", "parquet", "jsonl", "npz", "images", "text")


def open_source(
    source: str,
    data: str,
    *,
    kind: str,
    label: str,
    features: tuple[str, ...],
    sequence_length: int,
    memory: int,
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

    Raises:
        UserError: the source is unknown, missing, empty or in no known format, or its rows are too large.
    """
    if source.startswith("builtin:"):
        opened = _builtin(source, sequence_length)
    else:
        request = partial(
            Request, label=label, features=features, sequence_length=sequence_length, memory=memory
        )
        opened = _open_files(source, data, kind, request)
    row_bytes = opened.features.width * np.dtype(opened.features.disk_dtype).itemsize
    check_row(f"a row of `{source}`", row_bytes, memory)
    return opened


def _open_files(source: str, data: str, kind: str, request: Callable[[Path, Files], Request]) -> Source:
    root = _root(source, data)
    called = _called(source, root)
    try:
        names = sorted(list_files(root)) if root.is_dir() else [""]
    except OSError as error:
        place = f"{called}/{error.filename}" if error.filename and error.errno == errno.ELOOP else called
        raise unreadable(place, error) from None
    if not names:
        raise UserError(f"`{called}` holds no files", "bind `data` to a folder with files in it")
    kinds = [_kind(name or root.name) for name in names]
    kind = kind if kind != "auto" else _detect(kinds, names[0] or root.name, called)
    wanted = [name for name, its in zip(names, kinds, strict=True) if its == kind] or names
    return _readers()[kind](request(root, Files(root, wanted)))


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


def _root(source: str, data: str) -> Path:
    try:
        return _find_root(source, data)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # no permission, a name that is too long, a cycle of links
        raise unreadable(Path(data).name if source == "." else source, error) from None


def _find_root(source: str, data: str) -> Path:
    if not data:
        close = suggest(f"builtin:{source}", SOURCES)
        raise UserError(
            f"source `{source}` is a path inside `data`, and `data` is not bound",
            close
            if "did you mean" in close
            else "bind `data`, or use `builtin:digits` or `builtin:python-source`",
        )
    base = Path(data)
    root = base / source if base.is_dir() else base
    if base.is_dir() and not root.resolve().is_relative_to(base.resolve()):
        raise UserError(f"source `{source}` leads out of `data`", "give a path inside the folder")
    if not root.exists():
        names = [entry.name for entry in islice(base.iterdir(), _SUGGESTED)] if base.is_dir() else []
        raise UserError(
            f"`data` has no `{source if base.is_dir() else base.name}`", suggest(source, sorted(names))
        )
    if not root.is_dir():
        check_regular(root)
    return root


def _kind(name: str) -> str:
    from sources import text

    stem, suffix = os.path.splitext(name.rpartition("/")[2].lower())  # noqa: PTH122 - of millions of names
    if suffix == ".gz":
        suffix = os.path.splitext(stem)[1]  # noqa: PTH122
    if suffix in TABLES:
        return TABLES[suffix]
    if suffix in PICTURES:
        return "images"
    return "text" if suffix in text.SUFFIXES else ""


def _detect(formats: list[str], first: str, called: str) -> str:
    kinds = sorted(set(formats) - {""})
    # A note such as README.md beside the data is not data.
    kinds = [kind for kind in kinds if kind != "text"] or kinds
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise UserError(
            f"`{called}` holds files of several formats: {', '.join(kinds)}", "say which with `format`"
        )
    shown = Path(first).suffix or Path(first).name
    raise UserError(
        f"`{called}` holds no file of a known format, but `{shown}`", "say which it is with `format`"
    )


def _called(source: str, root: Path) -> str:
    return source if source != "." else root.name
