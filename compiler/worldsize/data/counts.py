"""Counts the rows of small local files that train, as `shard_data` divides them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldsize.data import TableCount
from worldsize.data.rows import read_sample
from worldsize.data.sample import Limits, Sample
from wsshards.regular_files import check_regular
from wsshards.terms import CLASSIFICATION, GIVEN
from wssources.column_kinds import parse_column_types
from wssources.find_files import choose_files, find_files
from wssources.media_options import MediaOptions
from wssources.name_lists import split_names
from wssources.picture_labels import find_label_file
from wssources.planned_rows import divide_rows
from wssources.request import REFUSE, Files, Request, is_packed
from wssources.split_settings import SplitSettings, make_split
from wssources.table_rows import Tally
from wssources.tasks import AUTO, FEW_VALUES
from wssources.unpack import is_described, unpack

MAX_BYTES = 16 * 1024 * 1024  # of all files together that are read for a count
MAX_FILES = 100_000
_ALL = sys.maxsize


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
    label_file = find_label_file(request) if kind == "images" else None
    read = request.files if is_table else [label_file] if label_file is not None else []
    if sum(map(check_regular, read)) > MAX_BYTES or (is_table and any(map(is_packed, read))):
        return None
    if kind == "parquet" and not request.media.text:
        from wssources import parquet_rows  # heavy, and only this format needs it

        tally = parquet_rows.tally_files(request, MAX_BYTES)
        return None if tally is None else _count_table(tally)
    if (kind == "images" and label_file is None) or (kind == "text" and request.task != CLASSIFICATION):
        request = request._replace(task=AUTO)  # the data alone decides: another task is reported elsewhere
    limits = Limits(_ALL, _ALL, _ALL, MAX_FILES, pictures=0, numbers=MAX_BYTES)
    sample = read_sample(request, kind, limits=limits)
    if sample.fault is not None or not sample.complete:
        return None
    if sample.tally is not None:
        return _count_table(sample.tally)
    train, validated, tested = _divide(request, sample)
    task = sample.task if sample.reason else ""
    return TableCount(train, task, sample.reason) if train + validated + tested else None


def _count_table(tally: Tally) -> TableCount | None:
    train, validated, tested = tally.parts.divide()
    if not tally.agrees() or not train + validated + tested:
        return None
    decision = tally.plan.decision
    return TableCount(train, decision.task, decision.reason, tally.encoded_width, tally.outputs)


def _divide(request: Request, sample: Sample) -> tuple[int, int, int]:
    """The rows that train, validate and test; raises ValueError if that is left open."""
    if sample.parts is not None:
        return sample.parts.divide()
    split = request.split or SplitSettings()  # of archives
    is_class = sample.task == CLASSIFICATION
    is_clear = is_class and len(sample.labels) <= FEW_VALUES
    if split.columns or split.by_time or (request.task == AUTO and not is_clear):
        raise ValueError("the labels or the split leave it open")
    rows = list(sample.labels.values()) if is_class else [sample.rows]
    return divide_rows(rows, split.validation, split.test)


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
