"""Reads a bounded part of local data as `shard_data` reads all of it, up to the first fault."""

from __future__ import annotations

import ast
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from worldsize.base import limits
from worldsize.rules.data import _pictures
from wsshards.errors import UserError, clip_text
from wsshards.manifest import CLASSIFICATION, LANGUAGE_MODEL
from wsshards.regular_files import check_regular, open_regular
from wssources import documents, picture_folders, picture_labels, row_faults
from wssources.array_names import find_features, find_label
from wssources.columns import choose_columns, same_columns
from wssources.media_options import BPE, BYTES_TOKENIZER
from wssources.parquet import check_footer
from wssources.planned_rows import divide_rows
from wssources.request import (
    REFUSE,
    InputError,
    Request,
    blame_input,
    is_packed,
    open_data,
    suggest,
    unreadable,
)
from wssources.split_settings import SplitSettings, check_by_hash, find_parts
from wssources.table_plan import FILL_HELP
from wssources.table_rows import Tally, plan_file_table, read_rows
from wssources.tasks import LabelValues, check_possible, decide_task, name_class, split_label
from wssources.tokenizer_files import check_tokenizer_file
from wssources.unpack_limits import open_archive, read_npy_header

MAX_ROWS = 10_000
MAX_CELLS = 200_000
MAX_BYTES = 2 << 20  # of tables and JSON Lines
MAX_OPENED = 100  # files of tables
_BLOCK = 1 << 19  # characters of a document that its first block has at least
MAX_PICTURES = 1_000  # whose size is read, spread over all


class Sample(Struct):
    """What was read: the first fault, with the rule and the input that it belongs to, or the labels."""

    fault: UserError | None = None
    slug: str = "data-row-invalid"
    blamed: str = ""  # the input to correct
    labels: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    complete: bool = True  # every row was read
    task: str = CLASSIFICATION
    tally: Tally | None = None  # of a table

    @property
    def full(self) -> bool:
        """Whether no more rows are to be read."""
        if self.rows >= MAX_ROWS:
            self.complete = False
        return not self.complete

    def add(self, value: Any) -> None:
        """Count the label of a row."""
        self.labels[name_class(value)] += 1
        self.rows += 1

    def add_row(self, file: Path, row: Mapping[str, Any] | None) -> None:
        """Take in a row of a table; None is one that is dropped."""
        assert self.tally is not None
        self.tally.add(file, row)
        if row is not None and self.task == CLASSIFICATION:
            self.add(row[self.tally.plan.labels[0]])
        elif row is not None:
            self.rows += 1

    def divide(self, request: Request) -> int:
        """The training rows of data that was read whole."""
        if self.tally is not None:
            return self.tally.parts.divide()[0]
        split = request.split or SplitSettings()
        counts = list(self.labels.values()) if self.labels else [self.rows]
        return divide_rows(counts, split.validation, split.test)[0]


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


def _list_tables(request: Request, sample: Sample) -> Iterator[Path]:
    """The files of a table that are read, as long as the bounds allow."""
    size = 0
    for file in islice(request.files, MAX_OPENED):
        size += check_regular(file)
        sample.complete = sample.complete and size <= MAX_BYTES and not is_packed(file)
        yield file
        if sample.full:
            return
    sample.complete = sample.complete and len(request.files) <= MAX_OPENED


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
    with blame_input("data-source-missing", "split"):
        find_parts(request)
    plan, head = plan_file_table(request, kind)
    sample.task, sample.tally = plan.decision.task, Tally(request, plan)
    for file in _list_tables(request, sample):
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


def _read_pictures(request: Request, sample: Sample) -> None:
    check_by_hash(request.split, request.name, "images")
    sample.slug, sample.blamed = "data-column-missing", "labels"
    file = picture_labels.find_label_file(request)
    if file is not None:
        _read_picture_labels(request, sample, file)
    else:
        sample.slug, sample.blamed = "picture-invalid", ""
        check_possible(request.task, CLASSIFICATION, request.name)
        picture_folders.check_folders(request)
        sample.labels.update(picture_folders.find_class(request, file) for file in request.files)
    sample.slug, sample.blamed = "picture-invalid", ""
    if request.media.broken_images == "skip":
        sample.complete = False
        return
    for file in request.files[:: -(-len(request.files) // MAX_PICTURES)]:
        limits.check_time()
        try:
            _pictures.read_shape(file)
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
        sample.task = labels.decide(request.task, request.show(file)).task
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
    check_by_hash(request.split, request.name, "text")
    sample.blamed = "tokenizer"
    if request.media.tokenizer not in (BYTES_TOKENIZER, BPE):
        check_tokenizer_file(request.media)
    sample.blamed = "text"
    sample.task = documents.find_task(request, kind)
    labelled, found = sample.task == CLASSIFICATION, LabelValues(request.label)
    sample.slug, sample.blamed = "data-row-invalid", ""
    if labelled and kind == "text":
        documents.check_text_folders(request)
    size = 0
    for document in documents.read_corpus(request, kind, labelled=labelled):
        limits.check_time()
        block = next(document.blocks(), "")
        if labelled and not block.strip():
            raise UserError(f"`{document.name}` has no text", "remove it, or write its text into it")
        size += len(block.strip())
        if labelled:
            sample.labels[document.label] += 1
            found.add(document.label)
        sample.rows += 1
        if sample.full or size > MAX_BYTES:
            sample.complete = False
            return
    if size == 0:
        raise UserError(f"`{request.called}` has no text", "give it at least one document")
    if not labelled and sample.rows == 1 and size <= min(request.sequence_length, _BLOCK):
        sample.slug = "data-too-few-rows"
        raise UserError(
            f"`{request.called}` has {size:,} characters of text, and a row has"
            f" {request.sequence_length + 1:,} tokens",
            "give more text, or a smaller `sequence_length`",
        )
    if labelled and kind != "text":
        documents.check_text_labels(request, found)
    sample.complete = labelled  # how many rows of tokens a corpus has is not known before it is read


def _read_text(request: Request, sample: Sample) -> None:
    check_by_hash(request.split, request.name, "text")
    check_possible(request.task, LANGUAGE_MODEL, request.name)
    sample.task = LANGUAGE_MODEL
    sample.rows = sum(check_regular(file) for file in request.files) // (request.sequence_length + 1)


def _read_parquet(request: Request, sample: Sample) -> None:
    """Compare the footers of the files, which have their columns, and of each how many values are missing."""
    try:
        from pyarrow import parquet  # not installed with the checker
    except ImportError:
        sample.complete = False
        return
    columns: list[str] = []
    for file in _list_tables(request, sample):
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
            _check_parquet_column(request, sample, file, metadata, name)
        sample.rows += metadata.num_rows
    sample.complete = sample.rows == 0  # how many rows each class has is not in the footers


def _check_parquet_column(request: Request, sample: Sample, file: Path, metadata: Any, name: str) -> None:
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
    for file in _list_tables(request, sample):
        sample.slug = "data-format-wrong"
        try:
            heads = _read_heads(file)
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


def _read_header(archive: zipfile.ZipFile, name: str) -> tuple[dict[str, Any], bytes]:
    """Return what the header of an array says, and the first values of it, as they are stored."""
    with archive.open(name) as member:
        version, header = read_npy_header(member)
        text = header.read()[2 if version == (1, 0) else 4 :].decode("latin-1")
        return ast.literal_eval(text), member.read(MAX_ROWS * 8)


def _read_heads(file: Path) -> dict[str, dict[str, Any]]:
    """What the headers of the arrays in an archive say, by the name of the array."""
    with open_regular(file) as stream, open_archive(stream) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")][:MAX_OPENED]
        return {name.removesuffix(".npy"): _read_header(archive, name)[0] for name in names}


def _add_labels(request: Request, sample: Sample, file: Path, label: str) -> None:
    """Count the labels of an archive, if they are numbers; text is left to the step."""
    with open_regular(file) as stream, open_archive(stream) as archive:
        header, values = _read_header(archive, f"{label}.npy")
    rows, code = header["shape"][0], str(header["descr"])
    if len(header["shape"]) > 1 or (request.split is not None and request.split.given):
        sample.complete, sample.task = False, ""
        return
    if code[1:] not in _NUMBERS or rows > MAX_ROWS - sample.rows:
        sample.complete, sample.task = False, ""
        return
    order = ">" if code[0] == ">" else "<"
    found = LabelValues(label)
    for value in struct.unpack_from(f"{order}{rows}{_NUMBERS[code[1:]]}", values):
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
    "images": _read_pictures,
    "jsonl": _read_jsonl,
    "npz": _read_npz,
    "parquet": _read_parquet,
    "text": _read_text,
}
