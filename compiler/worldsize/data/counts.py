"""Counts the rows of small local files that train, as `shard_data` divides them."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldsize.data import TableCount
from worldsize.data.rows import list_arrays, read_numbers
from wsshards.regular_files import check_regular
from wsshards.terms import CLASSIFICATION
from wssources import documents, picture_folders
from wssources.array_names import find_label
from wssources.column_kinds import parse_column_types
from wssources.find_files import choose_files, find_files
from wssources.media_options import MediaOptions
from wssources.name_lists import split_names
from wssources.part_counts import PartCounts, count_windows
from wssources.picture_labels import find_label_file, read_picture_labels
from wssources.request import REFUSE, Files, Request, is_packed
from wssources.split_settings import GIVEN, UNDECIDED, SplitSettings, find_parts, fixed_parts, make_split
from wssources.table_rows import Tally, plan_file_table, read_rows
from wssources.tasks import AUTO, FEW_VALUES, name_class
from wssources.unpack import is_described, unpack

MAX_BYTES = 16 * 1024 * 1024  # of all files together that are read for a count
MAX_FILES = 100_000


def count_split(root: Path, values: Mapping[str, Any]) -> TableCount | None:
    """Count the rows of a file or folder that train, by the inputs of ``shard_data``.

    Returns:
        None where the data is too large to be read just for a count, of an unknown format, or faulty, which
        the step that reads it reports, and where the labels or the split leave it open.
    """
    try:
        described = is_described(root, str(values["format"]))
        return (_count_described if described else _count_files)(root, values)
    except Exception:
        # The step that reads the data reports its faults; a count is a convenience.
        return None


def _count_described(root: Path, values: Mapping[str, Any]) -> TableCount | None:
    """Count the rows of an `MLTable` or a saved data set, once they are plain files."""
    with tempfile.TemporaryDirectory(prefix="worldsize-") as scratch:
        unpacked = unpack(root, Path(scratch), most_bytes=MAX_BYTES)
        if not unpacked.complete:
            return None
        kinds = unpacked.column_kinds(parse_column_types(str(values.get("column_types") or "")))
        split = unpacked.divide(make_split(values))
        options = {
            "column_types": ",".join(f"{name}={kind}" for name, kind in kinds.items()),
            "split": GIVEN if split is not None and split.given else values.get("split"),
        }
        return count_split(unpacked.root, {**values, **options})


def _count_files(root: Path, values: Mapping[str, Any]) -> TableCount | None:
    root, names = find_files(".", str(root), MAX_FILES)
    labelled = bool(values.get("labels")) and values["format"] == "auto"
    kind, chosen = choose_files(root, names, "images" if labelled else str(values["format"]), root.name)
    request = _make_request(root, chosen, values)
    is_table = kind in ("csv", "jsonl", "parquet")
    if is_table and (
        sum(map(check_regular, request.files)) > MAX_BYTES or any(map(is_packed, request.files))
    ):
        return None
    if is_table and not request.media.text:
        return _count_table(request, kind)
    task, reason = "", ""
    file = find_label_file(request) if kind == "images" else None
    if file is not None:
        if check_regular(file) > MAX_BYTES:
            return None
        labels = read_picture_labels(request, file)
        decision = labels.decide(request.task, request.show(file))
        counts, task, reason = labels.count(decision, _split_of(request)), decision.task, decision.reason
    elif kind == "images":
        counts, task, reason = _count_pictures(request), CLASSIFICATION, "the pictures are in class folders"
    elif kind == "npz":
        counts = _count_arrays(request)
    elif kind == "text" and request.task != CLASSIFICATION:
        counts = count_windows(request, find_parts(request))
    else:
        counts = _count_documents(request, kind)
    train, validated, tested = counts.divide()
    return TableCount(train, task, reason) if train + validated + tested else None


def _make_request(root: Path, names: list[str], values: Mapping[str, Any]) -> Request:
    return Request(
        root,
        Files(root, names) if names != [""] else [root],
        str(values["label"]),
        split_names(str(values.get("features") or "")),
        int(values.get("sequence_length") or 1),
        MAX_BYTES,
        task=str(values.get("task") or AUTO),
        missing=str(values.get("missing") or REFUSE),
        column_types=parse_column_types(str(values.get("column_types") or "")),
        split=make_split(values, int(values.get("seed") or 0)),
        media=MediaOptions(labels=str(values.get("labels") or ""), text=str(values.get("text") or "")),
    )


def _split_of(request: Request) -> SplitSettings:
    return request.split or SplitSettings()


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


def _count_pictures(request: Request) -> PartCounts:
    picture_folders.check_folders(request)
    parts = find_parts(request)
    counts = PartCounts(_split_of(request), fixed_parts(None, parts.values()))
    for file in request.files:
        counts.add(picture_folders.find_class(request, file), parts.get(file, UNDECIDED))
    return counts


def _count_documents(request: Request, kind: str) -> PartCounts:
    """Count texts with a label: files in class folders, or rows of a table."""
    if kind == "text":
        documents.check_text_folders(request)
    bounds = documents.find_text_division(request, kind).bounds
    counts = PartCounts(_split_of(request), fixed_parts(bounds, find_parts(request).values()))
    for document in documents.read_corpus(request, kind, labelled=True):
        counts.add(document.label, document.part, document.group)
    return counts


def _count_arrays(request: Request) -> PartCounts:
    """Count the labels in archives, which are whole numbers; raises ValueError if the count is left open."""
    split = _split_of(request)
    counts = PartCounts(split)
    for file in request.files:
        numbers = read_numbers(file, find_label(request, file, list_arrays(file)), MAX_BYTES)
        if numbers is None or any(isinstance(number, float) for number in numbers):
            raise ValueError("the labels are not whole numbers, or too many to be read for a count")
        for number in numbers:
            counts.add(name_class(number))
    ambiguous = request.task == AUTO and len(counts.classes) > FEW_VALUES
    if ambiguous or split.columns or split.by_time or split.given:
        raise ValueError("the labels or the split leave it open")
    if request.task not in (AUTO, CLASSIFICATION):
        counts.classes = Counter({"": counts.classes.total()})
    return counts
