"""Finding the files of a source and the reader for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sources.common import Batch, Request, Source, rows_per_batch, suggest
from wsshards.builtin import DIGITS, PYTHON_SOURCE, SOURCES
from wsshards.errors import UserError
from wsshards.manifest import CLASSIFICATION, Features

FORMATS = ("auto", "csv", "parquet", "jsonl", "npz", "images", "text")


def open_source(
    source: str, data: str, *, kind: str, label: str, features: tuple[str, ...], sequence_length: int
) -> Source:
    """The stream of rows that the user means.

    Args:
        source: `builtin:…`, or a path inside `data`; `.` is all of it.
        data: folder or file given as input, or empty.
        kind: one of `FORMATS`; `auto` goes by the names of the files.
        label: label column or array.
        features: feature columns or array; empty means all but the label.
        sequence_length: tokens a language model predicts per row.

    Raises:
        UserError: the source is unknown, absent, empty or of no known format.
    """
    if source.startswith("builtin:"):
        return _builtin(source, sequence_length)
    root = _root(source, data)
    files = sorted(_files(root), key=lambda file: file.relative_to(root).as_posix() if file != root else "")
    if not files:
        raise UserError(
            f"`{_called(source, root)}` holds no files", "bind `data` to a folder with files in it"
        )
    kind = kind if kind != "auto" else _detect(files, _called(source, root))
    wanted = [file for file in files if _kind(file) == kind] or files
    request = Request(root, tuple(wanted), label, features, sequence_length)
    return _readers()[kind](request)


def _readers() -> dict[str, Callable[[Request], Source]]:
    from sources import arrays, pictures, tables, text  # noqa: PLC0415  each brings its own library

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
        from sources.text import read_python_source  # noqa: PLC0415

        return read_python_source(sequence_length)
    raise UserError(f"unknown source `{source}`", suggest(source, SOURCES))


def _digits() -> Source:
    """scikit-learn's 1,797 handwritten digits as `[1, 8, 8]` pictures from 0 to 1."""

    def batches() -> Iterator[Batch]:
        import pyarrow as pa  # noqa: PLC0415
        from sklearn.datasets import load_digits  # noqa: PLC0415

        digits = load_digits()
        pixels = (digits.data / 16).astype(np.float32)
        step = rows_per_batch(pixels.shape[1] * 4)
        for start in range(0, len(pixels), step):
            yield Batch(pixels[start : start + step], pa.array(digits.target[start : start + step]))

    return Source(CLASSIFICATION, Features("features", "float32", (1, 8, 8)), "label", batches)


def _root(source: str, data: str) -> Path:
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
        names = [entry.name for entry in base.iterdir()] if base.is_dir() else []
        raise UserError(
            f"`data` has no `{source if base.is_dir() else base.name}`", suggest(source, sorted(names))
        )
    return root


def _files(root: Path) -> Iterator[Path]:
    """Every data file below; hidden files and markers such as `_SUCCESS` are not data."""
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (Path(folder) / name for name in names if name[0] not in "._")


def _kind(file: Path) -> str:
    from sources import pictures, text  # noqa: PLC0415

    suffix = file.suffix.lower()
    if suffix == ".gz":
        suffix = Path(file.stem).suffix.lower()
    plain = {
        ".csv": "csv",
        ".parquet": "parquet",
        ".pq": "parquet",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".npz": "npz",
    }
    if suffix in plain:
        return plain[suffix]
    if suffix in pictures.SUFFIXES:
        return "images"
    return "text" if suffix in text.SUFFIXES else ""


def _detect(files: list[Path], called: str) -> str:
    kinds = sorted({_kind(file) for file in files} - {""})
    # A note such as README.md beside the data is not data.
    kinds = [kind for kind in kinds if kind != "text"] or kinds
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise UserError(
            f"`{called}` holds files of several formats: {', '.join(kinds)}", "say which with `format`"
        )
    shown = files[0].suffix or files[0].name
    raise UserError(
        f"`{called}` holds no file of a known format, but `{shown}`", "say which it is with `format`"
    )


def _called(source: str, root: Path) -> str:
    return source if source != "." else root.name
