"""Reads a bounded part of local data as `shard_data` reads all of it, up to the first fault."""

from __future__ import annotations

import ast
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from worldsize.data.sample import SAMPLED, Limits, Sample, find_given_parts, list_tables
from wsshards.errors import UserError, clip_text
from wsshards.regular_files import check_regular, open_regular
from wsshards.terms import CLASSIFICATION, LANGUAGE_MODEL
from wssources import documents, picture_folders, picture_labels, row_faults
from wssources.array_names import find_features, find_label
from wssources.columns import choose_columns, same_columns
from wssources.input_error import InputError, blame_input, suggest
from wssources.media_options import BPE, BYTES_TOKENIZER
from wssources.parquet import check_footer
from wssources.part_counts import PartCounts, count_windows
from wssources.request import REFUSE, Request, open_data, unreadable
from wssources.split_settings import UNDECIDED, SplitSettings, check_without_columns, fixed_parts
from wssources.table_plan import FILL_HELP
from wssources.table_rows import Tally, plan_file_table, read_rows
from wssources.tasks import LabelValues, check_possible, decide_task, split_label
from wssources.tokenizer_files import check_tokenizer_file
from wssources.unpack_limits import open_archive, read_npy_header


def read_sample(
    request: Request, kind: str, check_time: Callable[[], None] = lambda: None, limits: Limits = SAMPLED
) -> Sample:
    """Read data up to its first fault, or to the limits; ``check_time`` may end it."""
    sample = Sample(limits, check_time)
    try:
        if documents.is_tokenized(kind, request.media, request.task):
            _read_texts(request, sample, kind)
        else:
            _READERS[kind](request, sample)
    except InputError as error:
        sample.fault, sample.slug, sample.blamed = error, error.slug, error.blamed
    except UserError as error:
        sample.fault = error
    except (ImportError, OSError):  # Parquet without pyarrow, which is not installed with the checker
        sample.complete = False  # or no permission, here
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
    """Read the first rows, which decide how all are read, then check rows up to the limits."""
    find_given_parts(request)
    plan, head = plan_file_table(request, kind)
    sample.task, sample.tally = plan.decision.task, Tally(request, plan)
    limits = sample.limits
    for file in list_tables(request, sample):
        if kind == "csv":
            sample.slug = "data-format-wrong"
            header = row_faults.csv_header(request, file)
            sample.slug = "data-column-missing"
            same_columns(request, request.files[0], plan.names, file, header)
        sample.slug = "data-row-invalid"
        most = min(limits.rows, max(1, limits.cells // max(len(head.columns), 1))) - sample.rows
        for number, row in enumerate(read_rows(request, kind, file, plan, head, most=limits.size)):
            sample.check_time()
            sample.add_row(file, row)
            if number + 1 >= most:
                sample.complete = False
                return
        if sample.full:
            return


def _read_parquet(request: Request, sample: Sample) -> None:
    """Compare the footers of the files, which list the columns and the number of missing values in each."""
    from pyarrow import parquet  # not installed with the checker

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
            _check_parquet_column(request, sample, file, metadata, name)
        sample.rows += metadata.num_rows
    # How many rows each class has is not in the footers.
    sample.complete = sample.complete and (sample.rows == 0 or _tally_parquet(request, sample))


def _tally_parquet(request: Request, sample: Sample) -> bool:
    """Judge the labels of small files as those of CSV are; return whether all were read."""
    from wssources import parquet_rows  # needs pyarrow

    try:
        tally = parquet_rows.tally_files(request, sample.limits.size)
    except UserError:
        raise
    except Exception:  # too large to be read here, or unreadable by pyarrow: the step reports it
        return False
    if tally is None or not tally.agrees():
        return False
    counted = tally.parts.classes
    sample.task, sample.tally = tally.plan.decision.task, tally
    if sample.task == CLASSIFICATION:
        sample.labels.update(counted)
    return sum(counted.values()) == tally.rows


def _check_parquet_column(request: Request, sample: Sample, file: Path, metadata: Any, name: str) -> None:
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    if name not in paths:  # a list or a struct
        return
    index, missing = paths.index(name), 0
    for group in range(min(metadata.num_row_groups, sample.limits.opened)):
        sample.check_time()
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
        names = [name for name in archive.namelist() if name.endswith(".npy")][: SAMPLED.opened]
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
    """Return the header of an array, and its first bytes as they are stored."""
    with archive.open(f"{name}.npy") as member:
        version, header = read_npy_header(member)
        text = header.read()[2 if version == (1, 0) else 4 :].decode("latin-1")
        return ast.literal_eval(text), member.read(most)


def _read_heads(file: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """The headers of the arrays in an archive, by the name of the array."""
    with open_regular(file) as stream, open_archive(stream) as archive:
        return {name: _read_header(archive, name)[0] for name in names}


def _add_labels(request: Request, sample: Sample, file: Path, label: str) -> None:
    """Count the labels of an archive, if they are numbers; text is left to the step."""
    numbers = read_numbers(file, label, sample.limits.numbers)
    is_split = request.split is not None and request.split.given
    if numbers is None or is_split or len(numbers) > sample.limits.rows - sample.rows:
        sample.complete, sample.task = False, ""
        return
    labels = LabelValues(label)
    for value in numbers:
        labels.add(value)
        sample.add(value)
    sample.slug, sample.blamed = "label-not-a-class", "label"
    sample.task = decide_task(
        request.task, [labels], sampled=not sample.complete, called=request.show(file)
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
        sample.reason = "the pictures are in class folders"
        for picture in request.files:
            name = picture_folders.find_class(request, picture)
            sample.labels[name] += 1
            sample.parts.add(name, parts.get(picture, UNDECIDED))
    sample.slug, sample.blamed = "picture-invalid", ""
    if request.media.broken_images == "skip":
        sample.complete = False
        return
    most = sample.limits.pictures
    for file in request.files[:: -(-len(request.files) // most)] if most else ():
        sample.check_time()
        try:
            read_shape(file)
        except ValueError as error:
            fault = unreadable(request.show(file), error)
            raise UserError(fault.message, f"{fault.help}, or say `broken_images: skip`") from None


def _read_picture_labels(request: Request, sample: Sample, file: Path) -> None:
    """Count the labels of pictures in a CSV, if it is small."""
    if check_regular(file) > sample.limits.size:
        sample.complete = False
        return
    columns = row_faults.csv_header(request, file)
    picture_labels.choose_label_columns(request, file, columns)
    sample.slug, sample.blamed = "data-row-invalid", "labels"
    labels = picture_labels.read_picture_labels(request, file)
    with blame_input("label-not-a-class", "label"):
        decision = labels.decide(request.task, request.show(file))
    sample.task, sample.reason = decision.task, decision.reason
    sample.parts = labels.count(decision, request.split or SplitSettings())
    if sample.task == CLASSIFICATION:
        sample.labels.update(values[0] for values in labels.values.values())
    else:
        sample.rows = len(labels.values)


def _read_texts(request: Request, sample: Sample, kind: str) -> None:
    sample.slug = "data-column-missing"
    if kind == "text":
        check_without_columns(request.split, request.name, "text")
    parts = find_given_parts(request)
    sample.blamed = "tokenizer"
    if request.media.tokenizer not in (BYTES_TOKENIZER, BPE):
        check_tokenizer_file(request.media)
    sample.blamed = "text"
    sample.task = documents.find_task(request, kind)
    labelled, labels = sample.task == CLASSIFICATION, LabelValues(request.label)
    sample.slug, sample.blamed = "data-row-invalid", ""
    if labelled and kind == "text":
        documents.check_text_folders(request)
    bounds = documents.find_text_division(request, kind).bounds
    sample.parts = PartCounts(request.split or SplitSettings(), fixed_parts(bounds, parts.values()))
    size = 0
    for document in documents.read_corpus(request, kind, labelled=labelled):
        sample.check_time()
        block = next(document.blocks(), "")
        if labelled and not block.strip():
            raise UserError(f"`{document.name}` has no text", "remove it, or write its text into it")
        size += len(block.strip())
        if labelled:
            sample.labels[document.label] += 1
            sample.parts.add(document.label, document.part, document.key)
            labels.add(document.label)
        sample.rows += 1
        if sample.full or size > sample.limits.size:
            sample.complete = False
            return
    _check_size(request, sample, size, labelled=labelled)
    if labelled and kind != "text":
        documents.check_text_labels(request, labels)
    sample.complete = labelled  # the rows of tokens in a corpus are counted only by reading it


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
        ValueError: it is not a picture, or ends before its pixels.
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


_READERS: dict[str, Callable[[Request, Sample], None]] = {
    "csv": _read_csv,
    "images": read_pictures,
    "jsonl": _read_jsonl,
    "npz": _read_npz,
    "parquet": _read_parquet,
    "text": read_text_bytes,
}
