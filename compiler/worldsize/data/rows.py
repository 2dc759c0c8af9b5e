"""Reads a bounded part of local data as `shard_data` reads all of it, up to the first fault."""

from __future__ import annotations

import ast
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from worldsize.base import limits
from worldsize.data import media
from worldsize.data.sample import (
    MAX_BYTES,
    MAX_CELLS,
    MAX_OPENED,
    MAX_ROWS,
    Sample,
    find_given_parts,
    list_tables,
)
from wsshards.errors import UserError, clip_text
from wsshards.regular_files import open_regular
from wsshards.terms import CLASSIFICATION
from wssources import row_faults
from wssources.array_names import find_features, find_label
from wssources.columns import choose_columns, same_columns
from wssources.input_error import InputError, suggest
from wssources.parquet import check_footer
from wssources.request import REFUSE, Request, open_data, unreadable
from wssources.table_plan import FILL_HELP
from wssources.table_rows import Tally, plan_file_table, read_rows
from wssources.tasks import LabelValues, decide_task, split_label
from wssources.unpack_limits import open_archive, read_npy_header


def read_sample(request: Request, kind: str) -> Sample:
    """Read data up to its first fault, or the bounds of this module."""
    sample = Sample()
    try:
        _READERS[kind](request, sample)
    except InputError as error:
        sample.fault, sample.slug, sample.blamed = error, error.slug, error.blamed
    except UserError as error:
        sample.fault = error
    except OSError:
        sample.complete = False  # no permission, here
    return sample


def _read_csv(request: Request, sample: Sample) -> None:
    sample.slug = "data-format-wrong"
    row_faults.csv_header(request, request.files[0])
    _read_table(request, sample, "csv")


def _read_jsonl(request: Request, sample: Sample) -> None:
    with open_data(request.files[0]) as stream:
        sample.slug = "data-row-invalid" if stream.read(1 << 16).strip() else "data-too-few-rows"
    _read_table(request, sample, "jsonl")


def _read_table(request: Request, sample: Sample, kind: str) -> None:
    """Read the first rows, which decide how all are read, then check rows up to the bounds of this module."""
    find_given_parts(request)
    plan, head = plan_file_table(request, kind)
    sample.task, sample.tally = plan.decision.task, Tally(request, plan)
    for file in list_tables(request, sample):
        if kind == "csv":
            sample.slug = "data-format-wrong"
            header = row_faults.csv_header(request, file)
            sample.slug = "data-column-missing"
            same_columns(request, request.files[0], plan.names, file, header)
        sample.slug = "data-row-invalid"
        most = min(MAX_ROWS, max(1, MAX_CELLS // max(len(head.columns), 1))) - sample.rows
        for number, row in enumerate(read_rows(request, kind, file, plan, head, most=MAX_BYTES)):
            limits.check_time()
            sample.add_row(file, row)
            if number + 1 >= most:
                sample.complete = False
                return
        if sample.full:
            return


def _read_parquet(request: Request, sample: Sample) -> None:
    """Compare the footers of the files, which have their columns, and of each how many values are missing."""
    try:
        from pyarrow import parquet  # not installed with the checker
    except ImportError:
        sample.complete = False
        return
    columns: list[str] = []
    for file in list_tables(request, sample):
        sample.slug = "data-format-wrong"
        try:
            with open_regular(file) as stream:
                check_footer(stream)
                metadata = parquet.read_metadata(stream)
        except (ValueError, OSError) as error:  # pyarrow's own are such
            raise unreadable(request.show(file), error) from None
        names = metadata.schema.to_arrow_schema().names
        sample.slug, sample.blamed = "data-column-missing", "label" if not columns else ""
        columns = columns or choose_columns(request, request.files[0], names)
        labels = split_label(request.label, names)
        same_columns(request, request.files[0], [*columns, *labels], file, names)
        sample.slug, sample.blamed = "data-row-invalid", ""
        for name in (*columns, *labels) if request.missing == REFUSE else ():
            _check_parquet_column(request, file, metadata, name)
        sample.rows += metadata.num_rows
    # How many rows each class has is not in the footers.
    sample.complete = sample.complete and (sample.rows == 0 or _tally_parquet(request, sample))


def _tally_parquet(request: Request, sample: Sample) -> bool:
    """Judge the labels of small files as those of CSV are; return whether all were read."""
    from wssources import parquet_rows  # needs pyarrow

    try:
        tally = parquet_rows.tally_files(request, MAX_BYTES)
    except UserError:
        raise
    except Exception:  # too large to be read here, or what pyarrow cannot read: the step says it
        return False
    if tally is None or not tally.agrees():
        return False
    counted = tally.parts.classes
    sample.task, sample.tally = tally.plan.decision.task, tally
    if sample.task == CLASSIFICATION:
        sample.labels.update(counted)
    return sum(counted.values()) == tally.rows


def _check_parquet_column(request: Request, file: Path, metadata: Any, name: str) -> None:
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    if name not in paths:  # a list or a struct
        return
    index, missing = paths.index(name), 0
    for group in range(min(metadata.num_row_groups, MAX_OPENED)):
        limits.check_time()
        statistics = metadata.row_group(group).column(index).statistics
        if statistics is None:
            continue
        missing += statistics.null_count if statistics.has_null_count else 0
    if missing:
        where = f"in {missing:,} of {metadata.num_rows:,} rows"
        message = f"`{request.show(file)}` has no value in column `{clip_text(name)}` {where}"
        raise UserError(message, FILL_HELP)


def _read_npz(request: Request, sample: Sample) -> None:
    label = ""
    for file in list_tables(request, sample):
        sample.slug = "data-format-wrong"
        try:
            heads = _read_heads(file, list_arrays(file))
            shapes = {name: tuple(head["shape"]) for name, head in heads.items()}
        except _DAMAGED as error:
            raise unreadable(request.show(file), error) from None
        sample.slug, sample.blamed = "data-column-missing", "label"
        label = label or find_label(request, file, shapes)
        if label not in shapes:
            raise UserError(f"`{request.show(file)}` has no array `{label}`", suggest(label, shapes))
        sample.blamed = "features"
        features = find_features(request, file, shapes, label)
        sample.slug, sample.blamed = "data-row-invalid", ""
        if str(heads[features]["descr"])[1:2] in "USO":
            message = f"array `{features}` of `{request.show(file)}` holds text or objects, not numbers"
            raise UserError(message, "save it as numbers")
        _add_labels(request, sample, file, label)


def list_arrays(file: Path) -> list[str]:
    """The names of the arrays in an archive."""
    with open_regular(file) as stream, open_archive(stream) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")][:MAX_OPENED]
        return [name.removesuffix(".npy") for name in names]


def read_numbers(file: Path, name: str, most: int) -> Sequence[int | float] | None:
    """The numbers of an array in an archive; None if there are none, columns, or over ``most`` bytes."""
    with open_regular(file) as stream, open_archive(stream) as archive:
        header, values = _read_header(archive, name, most)
    rows, code = header["shape"][0], str(header["descr"])
    is_read = len(header["shape"]) == 1 and code[1:] in _NUMBERS
    if not is_read or not 0 <= rows * int(code[2:]) <= len(values):
        return None
    return struct.unpack_from(f"{'>' if code[0] == '>' else '<'}{rows}{_NUMBERS[code[1:]]}", values)


def _read_header(archive: zipfile.ZipFile, name: str, most: int = 0) -> tuple[dict[str, Any], bytes]:
    """Return what the header of an array says, and the first bytes of it, as they are stored."""
    with archive.open(f"{name}.npy") as member:
        version, header = read_npy_header(member)
        text = header.read()[2 if version == (1, 0) else 4 :].decode("latin-1")
        return ast.literal_eval(text), member.read(most)


def _read_heads(file: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """What the headers of the arrays in an archive say, by the name of the array."""
    with open_regular(file) as stream, open_archive(stream) as archive:
        return {name: _read_header(archive, name)[0] for name in names}


def _add_labels(request: Request, sample: Sample, file: Path, label: str) -> None:
    """Count the labels of an archive, if they are numbers; text is left to the step."""
    numbers = read_numbers(file, label, MAX_ROWS * 8)
    given = request.split is not None and request.split.given
    if numbers is None or given or len(numbers) > MAX_ROWS - sample.rows:
        sample.complete, sample.task = False, ""
        return
    found = LabelValues(label)
    for value in numbers:
        found.add(value)
        sample.add(value)
    sample.slug, sample.blamed = "label-not-a-class", "label"
    sample.task = decide_task(
        request.task, [found], sampled=not sample.complete, called=request.show(file)
    ).task


_NUMBERS = {
    "i1": "b",
    "i2": "h",
    "i4": "i",
    "i8": "q",
    "u1": "B",
    "u2": "H",
    "u4": "I",
    "u8": "Q",
    "f4": "f",
    "f8": "d",
}
_DAMAGED = (
    ValueError,
    SyntaxError,
    KeyError,
    TypeError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
_READERS: dict[str, Callable[[Request, Sample], None]] = {
    "csv": _read_csv,
    "images": media.read_pictures,
    "jsonl": _read_jsonl,
    "npz": _read_npz,
    "parquet": _read_parquet,
    "text": media.read_text_bytes,
}
