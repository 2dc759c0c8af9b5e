"""Counting the rows of small local files class by class, without the libraries that will read them."""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import IO, Any

from worldsize.resolving.state import TableCount
from wsshards.regular_files import check_regular, list_files, open_regular, read_regular
from wsshards.terms import CLASSIFICATION
from wssources.column_kinds import parse_column_types
from wssources.documents import find_text_division, read_corpus
from wssources.formats import LABEL_ARRAYS, LABEL_FILE, MAX_CLASS_NAME, PICTURES, TABLES, TEXTS
from wssources.media_options import MediaOptions
from wssources.name_lists import split_names
from wssources.parquet import check_footer, check_pages, dictionary_columns
from wssources.part_counts import PartCounts, count_windows
from wssources.picture_folders import find_class
from wssources.picture_labels import find_label_file, read_picture_labels
from wssources.planned_rows import divide_rows
from wssources.request import REFUSE, Files, Request
from wssources.split_settings import GIVEN, UNDECIDED, SplitSettings, find_parts, fixed_parts, make_split
from wssources.table_rows import Tally, plan_file_table, read_rows
from wssources.tasks import AUTO, FEW_VALUES
from wssources.unpack import is_described, unpack
from wssources.unpack_limits import open_archive, read_npy_header

MAX_BYTES = 16 * 1024 * 1024  # of all files together that are read for a count
MAX_FILES = 100_000
_BATCH_ROWS = 1 << 16


def count_rows_per_class(root: Path, kind: str, label: str, sequence_length: int) -> list[int] | None:
    """Rows of each class in a file or folder.

    Args:
        root: The file or folder.
        kind: ``csv``, ``parquet``, ``jsonl``, ``npz``, ``images``, ``text``, or ``auto`` to go by names.
        label: The column, field or array of the class.
        sequence_length: Tokens a language model predicts per row of text.

    Returns:
        The counts, one entry for text, or None where the data is too large to be read just for a
        count, of an unknown format, or faulty, which the step that reads it reports.
    """
    try:
        files = _files(root)
        if not files:
            return None
        kind = _detect(files) if kind == "auto" else kind
        if kind == "images":
            # With a CSV of labels the names of folders are none.
            return _pictures(root, files) if not (root / LABEL_FILE).exists() else None
        if kind == "text":
            wanted = [file for file in files if file.suffix.lower() not in (*TABLES, *PICTURES)]
            return [sum(check_regular(file) for file in wanted) // (sequence_length + 1)]
        reader = _READERS.get(kind)
        wanted = [file for file in files if TABLES.get(file.suffix.lower()) == kind] or files
        if reader is None or sum(check_regular(file) for file in wanted) > MAX_BYTES:
            return None
        return _count(wanted, label, reader)
    except Exception:
        # Whatever is wrong with the data, the step that reads it says so; a count is a convenience.
        return None


def count_split(root: Path, values: Mapping[str, Any]) -> TableCount | None:
    """Count the rows of a file or folder that train, by the inputs of ``shard_data``.

    Returns:
        None where :func:`count_rows_per_class` returns None, and where the labels or the split leave it open.
    """
    try:
        described = is_described(root, str(values["format"]))
        return (_count_described if described else _count_files)(root, values)
    except Exception:
        return None  # as above: the step that reads it says what is wrong


def _count_files(root: Path, values: Mapping[str, Any]) -> TableCount | None:
    split = make_split(values, int(values.get("seed") or 0))
    files = sorted(_files(root))
    kind, task = str(values["format"]), str(values.get("task") or AUTO)
    by_hash = not (split.columns or split.by_time or split.given)
    if _has_label_file(root, files, values):
        return _count_labelled_pictures(root, files, values, split)
    kind = _detect(files) if kind == "auto" else kind
    wanted = [file for file in files if TABLES.get(file.suffix.lower()) == kind] or files
    if kind in ("csv", "jsonl", "parquet") and not values.get("text"):
        if sum(check_regular(file) for file in wanted) > MAX_BYTES:
            return None
        return _count_table(_make_request(root, wanted, values, split), kind)
    if not by_hash or (values.get("text") and values.get("missing", REFUSE) != REFUSE):
        return _count_divided(root, files, wanted, values, kind)
    label, length = str(values["label"]), int(values["sequence_length"])
    texts = task == CLASSIFICATION and kind in ("", "text")
    counts = _texts(root, files) if texts else count_rows_per_class(root, kind, label, length)
    return _divide(counts, kind, task, split) if counts else None


def _count_described(root: Path, values: Mapping[str, Any]) -> TableCount | None:
    """Count the rows of an `MLTable` or a saved data set, once they are plain files."""
    with tempfile.TemporaryDirectory(prefix="worldsize-") as scratch:
        unpacked = unpack(root, Path(scratch), most_bytes=MAX_BYTES)
        if not unpacked.complete:
            return None
        kinds = unpacked.column_kinds(parse_column_types(str(values.get("column_types") or "")))
        split = unpacked.divide(make_split(values))
        own = {
            "column_types": ",".join(f"{name}={kind}" for name, kind in kinds.items()),
            "split": GIVEN if split is not None and split.given else values.get("split"),
        }
        return count_split(unpacked.root, {**values, **own})


def _has_label_file(root: Path, files: Sequence[Path], values: Mapping[str, Any]) -> bool:
    """Whether a CSV has the labels of pictures."""
    if values.get("labels"):
        return True
    pictures = values["format"] in ("auto", "images") and any(_is_picture(file) for file in files)
    return pictures and (root / LABEL_FILE).is_file()


def _count_labelled_pictures(
    root: Path, files: Sequence[Path], values: Mapping[str, Any], split: SplitSettings
) -> TableCount | None:
    request = _make_request(root, [file for file in files if _is_picture(file)], values, split)
    file = find_label_file(request)
    if file is None or check_regular(file) > MAX_BYTES:
        return None
    found = read_picture_labels(request, file)
    decision = found.decide(request.task, request.show(file))
    train, _, _ = found.count(decision, split).divide()
    return TableCount(train, decision.task, decision.reason)


def _count_divided(
    root: Path, files: Sequence[Path], wanted: list[Path], values: Mapping[str, Any], kind: str
) -> TableCount | None:
    """Count pictures in folders, files of text, and rows of texts that files or columns divide."""
    split, texts = make_split(values, int(values.get("seed") or 0)), kind in ("", "text")
    if kind == "images":
        wanted = [file for file in files if _is_picture(file)]
    elif texts:
        wanted = [file for file in files if file.suffix.lower() in TEXTS]
    request = _make_request(root, wanted, values, split)
    parts = find_parts(request)
    counts = PartCounts(split, fixed_parts(None, parts.values()))
    if kind == "images":
        for file in wanted:
            counts.add(find_class(request, file), parts.get(file, UNDECIDED))
    elif texts and request.task != CLASSIFICATION:
        counts = count_windows(replace(request, sequence_length=int(values["sequence_length"])), parts)
    elif texts or values.get("text"):
        if sum(check_regular(file) for file in wanted) > MAX_BYTES:
            return None
        bounds = find_text_division(request, kind or "text").bounds
        counts = PartCounts(split, fixed_parts(bounds, parts.values()))
        for document in read_corpus(request, kind or "text", labelled=True):
            counts.add(document.label, document.part, document.group)
    train, validated, tested = counts.divide()
    return TableCount(train) if train + validated + tested else None


def _divide(per_class: list[int], kind: str, task: str, split: SplitSettings) -> TableCount | None:
    if kind == "npz" and task not in ("auto", "classification"):
        per_class = [sum(per_class)]
    elif kind == "npz" and task == "auto" and len(per_class) > FEW_VALUES:
        return None
    train, _, _ = divide_rows(per_class, split.validation, split.test)
    task, reason = (CLASSIFICATION, "the pictures are in class folders") if kind == "images" else ("", "")
    return TableCount(train, task, reason) if any(per_class) else None


def _make_request(root: Path, files: list[Path], values: Mapping[str, Any], split: SplitSettings) -> Request:
    names = ["" if file == root else file.relative_to(root).as_posix() for file in files]
    features = split_names(str(values.get("features") or ""))
    return Request(
        root,
        Files(root, names) if names != [""] else [root],
        str(values["label"]),
        features,
        1,
        MAX_BYTES,
        task=str(values.get("task") or "auto"),
        missing=str(values.get("missing") or "refuse"),
        column_types=parse_column_types(str(values.get("column_types") or "")),
        split=split,
        media=MediaOptions(labels=str(values.get("labels") or ""), text=str(values.get("text") or "")),
    )


def _count_table(request: Request, kind: str) -> TableCount | None:
    if kind == "parquet":
        from wssources import parquet_rows  # heavy, and only this format needs it

        tally = parquet_rows.tally_files(request, MAX_BYTES)
    else:
        plan, head = plan_file_table(request, kind)
        tally = Tally(request, plan)
        for file in request.files:
            for row in read_rows(request, kind, file, plan, head, most=math.inf):
                tally.add(file, row)
    if tally is None or not tally.agrees():
        return None
    train, validated, tested = tally.parts.divide()
    if not train + validated + tested:
        return None
    decision = tally.plan.decision
    return TableCount(train, decision.task, decision.reason, tally.encoded_width, tally.outputs)


def _files(root: Path) -> list[Path]:
    """Every data file below; hidden files and markers such as ``_SUCCESS`` are not data."""
    return [root / name for name in list_files(root, MAX_FILES)] if root.is_dir() else [root]


def _detect(files: Sequence[Path]) -> str:
    suffixes = {file.suffix.lower() for file in files}
    kinds = {TABLES[suffix] for suffix in suffixes if suffix in TABLES}
    kinds |= {"images"} if suffixes & set(PICTURES) else set()
    if not kinds:
        # Which other names are text is for the step to decide; the usual one is enough here.
        return "text" if suffixes == {".txt"} else ""
    return kinds.pop() if len(kinds) == 1 else ""


def _count(files: Sequence[Path], label: str, reader: Callable[[Path, str], Iterator[Any]]) -> list[int]:
    counts: Counter[str] = Counter()
    for file in files:
        counts.update(_name(value) for value in reader(file, label))
    return list(counts.values())


def _name(value: Any) -> str:
    """A class's name: 3 and 3.0 are one class."""
    name = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if len(name) > MAX_CLASS_NAME:
        raise ValueError("the name of a class is longer than the step allows")
    return name


def _is_picture(file: Path) -> bool:
    return file.suffix.lower() in PICTURES


def _texts(root: Path, files: Sequence[Path]) -> list[int] | None:
    """Text files in each folder; None where there are files of other kinds."""
    if any(file.suffix.lower() not in TEXTS for file in files):
        return None
    if root in (file.parent for file in files):  # in no class folder
        return None
    return list(Counter(file.relative_to(root).parts[0] for file in files).values())


def _pictures(root: Path, files: Sequence[Path]) -> list[int]:
    wanted = [file for file in files if _is_picture(file)]
    return list(Counter(file.relative_to(root).parts[0] for file in wanted).values())


def _text(file: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(read_regular(file, MAX_BYTES)), encoding="utf-8-sig", newline="")


def _csv(file: Path, label: str) -> Iterator[Any]:
    rows = csv.reader(_text(file))
    column = next(rows).index(label)
    yield from (row[column] for row in rows if row)


def _jsonl(file: Path, label: str) -> Iterator[Any]:
    yield from (json.loads(line)[label] for line in _text(file) if line.strip())


def _parquet(file: Path, label: str) -> Iterator[Any]:
    from pyarrow import parquet  # heavy, and only this format needs it

    with open_regular(file) as stream:
        check_footer(stream)
        metadata = parquet.read_metadata(stream)
        _bound(metadata.num_rows)
        once = dictionary_columns(metadata, [label])
        unpacked = check_pages(stream, metadata, {label}, once)
        _bound(unpacked.held)
        rows = max(1, min(_BATCH_ROWS, MAX_BYTES // max(1, unpacked.value)))
        opened = parquet.ParquetFile(stream, metadata=metadata, read_dictionary=once)
        for batch in opened.iter_batches(rows, columns=[label]):
            for counted in batch.column(0).value_counts():
                value = counted["values"].as_py()
                yield from repeat(value, counted["counts"].as_py())


def _npz(file: Path, label: str) -> Iterator[Any]:
    with open_regular(file) as stream, open_archive(stream) as archive:
        names = set(archive.namelist())
        name = next(each for each in (label, *LABEL_ARRAYS) if f"{each}.npy" in names)
        _bound(archive.getinfo(f"{name}.npy").file_size)
        with archive.open(f"{name}.npy") as member:
            yield from _whole_numbers(member)


def _bound(size: int) -> None:
    """Refuse what a small compressed file would unpack to."""
    if size > MAX_BYTES:
        raise ValueError(f"{size} is too large to be read for a count")


def _whole_numbers(member: IO[bytes]) -> tuple[int, ...]:
    """A one-dimensional array of whole numbers in NumPy's own format (NEP 1)."""
    version, start = read_npy_header(member)
    header = ast.literal_eval(start.read()[2 if version == (1, 0) else 4 :].decode("latin-1"))
    (rows,), order, code = header["shape"], header["descr"][0], header["descr"][1:]
    format_ = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}[code]
    return struct.unpack(f"{'>' if order == '>' else '<'}{rows}{format_}", member.read())


_READERS: dict[str, Callable[[Path, str], Iterator[Any]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "npz": _npz,
    "parquet": _parquet,
}
