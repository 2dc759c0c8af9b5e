"""NumPy `.npz` archives, streamed from the zip file without loading a whole array."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sources.common import FAULTS, Array, Batch, Source, check_finite, rows_per_batch
from wsshards.errors import UserError, clip_text
from wsshards.manifest import Features
from wsshards.regular_files import open_regular
from wsshards.terms import CLASSIFICATION
from wssources.array_names import find_features, find_label, name_targets
from wssources.formats import MAX_CLASS_NAME
from wssources.input_error import suggest
from wssources.request import Request, check_row, unreadable
from wssources.split_settings import UNDECIDED, SplitSettings, find_parts, head_files, refuse_window
from wssources.table_plan import HEAD_ROWS
from wssources.tasks import AUTO, LabelValues, decide_task
from wssources.unpack_limits import open_archive, read_npy_header

CHANNELS = (1, 3, 4)


def read_npz(request: Request) -> Source:
    """Rows of `.npz` archives: one array of features `[n, …]` and one of labels `[n]`.

    Arrays of bytes with two or more dimensions per row are images: stored as bytes, read as 0 … 1.

    Raises:
        UserError: an archive cannot be read, or its arrays are not features and labels.
    """
    split = request.split or SplitSettings()
    refuse_window(split, request.name, "arrays")
    if split.columns or split.by_time:
        raise UserError(
            f"`{split.columns[0] if split.columns else 'validation_after'}` divides the rows of tables with"
            f" columns, and `{request.name}` is none",
            "use `validation_fraction` and `test_fraction`, or `split: given`",
        )
    parts, files = find_parts(request), head_files(request)
    first = files[0]
    heads = _heads(request, first)
    label = find_label(request, first, heads)
    name = _features_name(request, first, heads, label)
    shape, targets = heads[name][0][1:], heads[label][0][1:]
    features = _describe(heads[name][1], shape)
    names = name_targets(label, targets)
    sample, sampled = _sample_labels(request, first, label, names)
    decision = decide_task(
        request.task, sample, sampled=sampled or len(files) > 1, called=request.show(first)
    )

    def batches() -> Iterator[Batch]:
        for file in request.files:
            part = parts.get(file, UNDECIDED)
            for batch in _stream(request, file, (name, label), features, (shape, targets)):
                marks = np.full(len(batch.features), part, np.uint8) if part else None
                yield replace(batch, parts=marks)

    return Source(
        decision.task,
        features,
        label,
        batches,
        labels=names,
        decision=decision,
        checked=request.task == AUTO and decision.task == CLASSIFICATION,
        fixed=frozenset(part for part in parts.values() if part),
    )


def _sample_labels(
    request: Request, file: Path, label: str, names: tuple[str, ...]
) -> tuple[list[LabelValues], bool]:
    """Return what the first labels are, and whether there are more."""
    columns = [LabelValues(name) for name in names]
    try:
        with ExitStack() as stack:
            archive = stack.enter_context(open_archive(stack.enter_context(open_regular(file))))
            member = stack.enter_context(archive.open(f"{label}.npy"))
            for rows in _pieces(member, HEAD_ROWS):
                for column, values in zip(columns, rows.reshape(len(rows), -1).T, strict=True):
                    for value in values[:HEAD_ROWS].tolist():
                        column.add(value)
                return columns, len(rows) >= HEAD_ROWS
    except FAULTS as error:
        raise unreadable(request.show(file), error) from None
    return columns, False


Head = tuple[tuple[int, ...], Any]


def _heads(request: Request, file: Path) -> dict[str, Head]:
    """Read the shape and dtype of every array in the archive, without reading the arrays."""
    try:
        with open_regular(file) as stream, open_archive(stream) as archive:
            heads = {}
            for member in archive.infolist():
                if not member.filename.endswith(".npy"):
                    continue
                with archive.open(member) as content:
                    shape, fortran, dtype = _header(content)
                    start = content.tell()
                name = member.filename.removesuffix(".npy")
                if not dtype.hasobject:  # its pickles can have any length and are not read
                    _check_size(request, name, (shape, fortran, dtype), member.file_size - start)
                heads[name] = (shape, dtype)
            return heads
    except FAULTS as error:
        raise unreadable(request.show(file), error) from None


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, Any]:
    version, header = read_npy_header(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(header)


def _check_size(request: Request, name: str, head: tuple[tuple[int, ...], bool, Any], size: int) -> None:
    """Raise ValueError if an array does not match its header, or cannot be read in pieces."""
    shape, fortran, dtype = head
    needed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or needed != size:
        raise ValueError(
            f"array `{name}` of shape {list(shape)} takes {needed:,} bytes, and it holds {size:,}"
        )
    # A whole array is in memory twice: as it was read, and as the rows taken from it.
    if fortran and len(shape) > 1 and needed > request.memory // 8:
        raise ValueError(
            f"array `{name}` of {needed:,} bytes is in Fortran order, which has no rows to read one by one: "
            "save it with np.ascontiguousarray"
        )


def _features_name(request: Request, file: Path, heads: dict[str, Head], label: str) -> str:
    name = find_features(request, file, {each: head[0] for each, head in heads.items()}, label)
    dtype = heads[name][1]
    kind, label_bytes = np.dtype(heads[label][1]), np.dtype(heads[label][1]).itemsize
    if kind.kind not in "fiubSU" or not 0 < label_bytes <= 4 * MAX_CLASS_NAME:
        raise UserError(
            f"array `{label}` of `{request.show(file)}` holds {clip_text(str(kind))}, not classes",
            f"save whole numbers, or text of at most {MAX_CLASS_NAME:,} characters",
        )
    if np.dtype(dtype).kind not in "fiub":
        raise UserError(
            f"array `{name}` of `{request.show(file)}` holds {clip_text(str(dtype))}, not numbers",
            "save it as numbers",
        )
    return name


def _describe(dtype: Any, shape: tuple[int, ...]) -> Features:
    out = (1, *shape) if len(shape) == 2 else _channels_first(shape)
    if dtype == np.uint8 and len(shape) >= 2:
        return Features("features", "float32", out, stored="uint8", scale=1 / 255)
    return Features("features", "float32", out or (1,))


def _is_channels_last(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[2] in CHANNELS and shape[0] not in CHANNELS


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[2], shape[0], shape[1]) if _is_channels_last(shape) else shape


def _stream(
    request: Request,
    file: Path,
    names: tuple[str, str],
    features: Features,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> Iterator[Batch]:
    shape, targets = shapes
    heads = _heads(request, file)
    for name in names:
        if name not in heads:
            raise UserError(f"`{request.show(file)}` has no array `{name}`", suggest(name, heads))
    for name, wanted in zip(names, shapes, strict=True):
        own_shape, other = list(heads[name][0][1:]), request.show(request.files[0])
        if own_shape == list(wanted):
            continue
        raise UserError(
            f"rows of `{request.show(file)}` have shape {own_shape}, those of `{other}` {list(wanted)}",
            "files of one data set must have rows of one shape",
        )
    row_bytes = math.prod(shape) * heads[names[0]][1].itemsize
    check_row(f"a row of `{request.show(file)}`", row_bytes, 2 * request.memory)
    step = rows_per_batch(max(row_bytes, heads[names[1]][1].itemsize))
    try:
        with ExitStack() as stack:
            archive = stack.enter_context(open_archive(stack.enter_context(open_regular(file))))
            values, labels = (
                _pieces(stack.enter_context(archive.open(f"{name}.npy")), step) for name in names
            )
            start = 0
            for rows, marks in zip(values, labels, strict=True):
                if _is_channels_last(shape):
                    rows = rows.transpose(0, 3, 1, 2)  # noqa: PLW2901
                flat = np.ascontiguousarray(rows.reshape(len(rows), -1), features.disk_dtype)
                check_finite(flat, lambda row, at=start: f"row {at + row + 1} of `{request.show(file)}`")  # type: ignore[misc]
                columns = [pa.array(column) for column in marks.T] if targets else pa.array(marks)
                yield Batch(flat, columns[0] if targets == (1,) else columns)
                start += len(rows)
    except FAULTS as error:
        raise unreadable(request.show(file), error) from None


def _pieces(member: IO[bytes], step: int) -> Iterator[Array]:
    """Yield an array in pieces of `step` rows; one in Fortran order cannot be streamed and is read whole."""
    shape, fortran, dtype = _header(member)
    if fortran:
        whole = np.frombuffer(member.read(), dtype).reshape(shape, order="F")
        yield from (whole[start : start + step] for start in range(0, shape[0], step))
        return
    row = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    for start in range(0, shape[0], step):
        count = min(step, shape[0] - start)
        data = member.read(count * row)
        yield np.frombuffer(data, dtype).reshape(count, *shape[1:])
