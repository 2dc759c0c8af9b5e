"""Reads what `datasets.save_to_disk` wrote: Arrow streams, described by JSON files beside them.

The folder of a `Dataset` has `state.json` and `dataset_info.json`; that of a `DatasetDict` has
`dataset_dict.json` and a folder for each split. Only pyarrow is needed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from wsshards.errors import UserError, clip_text
from wsshards.regular_files import check_regular, path_of_open, read_regular
from wsshards.terms import SPLITS
from wssources.formats import LABEL_FILE, PICTURES
from wssources.input_error import InputError
from wssources.request import unreadable
from wssources.split_settings import part_of_name

DICT, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
_MAX_JSON = 16 << 20  # bytes
_GROUP_BYTES = 8 << 20  # of a row group that is written
_BATCH_BYTES = 512 << 20  # of a record batch that is read
_FORMATS = ((b"\x89PNG", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"BM", ".bmp"))


@dataclass(frozen=True)
class Written:
    """What was written: whether all rows, and whether files are named for the parts of the data."""

    complete: bool
    given: bool


def is_saved(root: Path) -> bool:
    """Return whether a folder is one that `save_to_disk` wrote."""
    return (root / DICT).is_file() or ((root / STATE).is_file() and (root / INFO).is_file())


def unpack_dataset(root: Path, target: Path, most_bytes: int | None) -> Written:
    """Write a saved data set as one Parquet file a split, or as picture files with a CSV of their labels.

    Args:
        root: the saved folder.
        target: an existing folder to write to.
        most_bytes: about how much is written; None for all.

    Raises:
        UserError: the folder is damaged, or its splits are no parts.
        ImportError: pyarrow is missing.
    """
    splits = _find_splits(root)
    given = len(splits) > 1
    saved = [_Saved(root, name) for name in splits]
    pictures = {name for each in saved for name in each.find("Image")}
    if len(pictures) > 1:
        names = ", ".join(f"`{clip_text(name)}`" for name in sorted(pictures))
        raise UserError(f"`{root.name}` has {len(pictures)} columns of images: {names}", "keep one of them")
    left = most_bytes
    complete = True
    listed: list[tuple[_Saved, Path]] = []
    for each in saved:
        if left is not None and left <= 0:
            complete = False
            break
        if pictures:
            folder = target / each.name if given else target
            listed.append((each, folder))
            continue
        written, whole = _write_parquet(each, target / f"{each.name or 'data'}.parquet", left)
        left, complete = (None if left is None else left - written), complete and whole
    if pictures:
        complete = _write_pictures(listed, target, next(iter(pictures)), most_bytes)
    return Written(complete, given)


def _find_splits(root: Path) -> list[str]:
    """Return the names of the splits, or one empty name; raises UserError for one that is no part."""
    if not (root / DICT).is_file():
        return [""]
    names = _read_json(root, DICT).get("splits")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise UserError(f"`{DICT}` of `{root.name}` names no splits", "save the data set again")
    for name in names:
        if PurePosixPath(name).name != name or not is_saved(root / name):
            raise unreadable(f"{root.name}/{name}", "it is no folder that `save_to_disk` wrote")
        if len(names) > 1 and part_of_name(name) is None:
            raise InputError(
                UserError(
                    f"`{root.name}` has the split `{clip_text(name)}`, which is none of"
                    f" {', '.join(f'`{part}`' for part in SPLITS)}",
                    f"name one split with `source: {names[0]}`, or save it without `{clip_text(name)}`",
                ),
                "data-source-missing",
                "source",
            )
    return names


class _Saved:
    """One saved `Dataset`: its features and the streams of its rows."""

    def __init__(self, root: Path, split: str) -> None:
        self.name, self._folder = split, root / split
        self._called = f"{root.name}/{split}" if split else root.name
        state, info = _read_json(self._folder, STATE), _read_json(self._folder, INFO)
        features, files = info.get("features"), state.get("_data_files")
        if not isinstance(features, dict) or not isinstance(files, list):
            raise unreadable(self._called, f"`{STATE}` and `{INFO}` do not describe a data set")
        if state.get("_indices_data_files"):
            raise UserError(
                f"`{self._called}` is a selection of rows that an old version of `datasets` saved",
                "load it and save it again: `load_from_disk(…).flatten_indices().save_to_disk(…)`",
            )
        self.features: Mapping[str, Any] = features
        self._files = [self._find_file(each) for each in files]

    def _find_file(self, entry: Any) -> Path:
        name = entry.get("filename") if isinstance(entry, dict) else None
        if not isinstance(name, str) or PurePosixPath(name).name != name:
            raise unreadable(self._called, f"`{STATE}` names no files")
        if not (self._folder / name).is_file():
            raise UserError(
                f"`{self._called}` lacks its file `{clip_text(name)}`",
                "copy the whole folder, or save it again",
            )
        return self._folder / name

    def find(self, kind: str) -> list[str]:
        """Return the columns of a kind of feature, such as `Image`."""
        return [
            name
            for name, feature in self.features.items()
            if isinstance(feature, dict) and feature.get("_type") == kind
        ]

    def class_names(self, column: str) -> list[str] | None:
        """Return the names of a column of classes, or None for another column."""
        feature = self.features.get(column)
        if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
            return None
        names = feature.get("names")
        return [str(name) for name in names] if isinstance(names, list) else None

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(check_regular(file) for file in self._files)

    def read(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield record batches, with the names of classes instead of their numbers."""
        import pyarrow as pa

        for file in self._files:
            name = f"{self._called}/{file.name}"
            try:
                with path_of_open(file) as path, pa.memory_map(path) as stream:
                    for batch in pa.ipc.open_stream(stream):
                        if batch.nbytes > _BATCH_BYTES:
                            reason = (
                                f"a record batch has {batch.nbytes:,} bytes, and may have {_BATCH_BYTES:,}"
                            )
                            raise unreadable(name, reason)
                        batch.validate(full=True)
                        yield self._name_classes(batch.select(columns) if columns else batch)
            except (OSError, pa.ArrowException) as error:
                raise unreadable(name, error) from None

    def _name_classes(self, batch: Any) -> Any:
        import pyarrow as pa

        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            names = self.class_names(name)
            if names is None or not pa.types.is_integer(column.type):
                columns.append(column)
                continue
            numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            valid = (numbers >= 0) & (numbers < len(names))  # -1 stands for a missing label
            indices = pa.array(numbers, pa.int64(), mask=~valid, from_pandas=True)
            columns.append(
                pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), pa.array(names)).dictionary_decode()
            )
        return pa.record_batch(columns, names=batch.schema.names)


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(folder / name, _MAX_JSON))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(f"{folder.name}/{name}", error) from None
    if not isinstance(content, dict):
        raise unreadable(f"{folder.name}/{name}", "it is not a JSON object")
    return content


def _write_parquet(saved: _Saved, path: Path, most_bytes: int | None) -> tuple[int, bool]:
    """Write the rows as Parquet; return the bytes that were read, and whether these are all rows."""
    import pyarrow as pa
    from pyarrow import parquet

    total, pending, size = 0, list[Any](), 0
    writer: Any = None
    try:
        for batch in saved.read():
            if most_bytes is not None and total > most_bytes:
                return total, False
            writer = writer or parquet.ParquetWriter(path, batch.schema)
            pending.append(batch)
            size, total = size + batch.nbytes, total + batch.nbytes
            if size >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(pending))
                pending, size = [], 0
        if pending:
            writer.write_table(pa.Table.from_batches(pending))
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise UserError(f"`{saved.name or path.parent.name}` has no rows", "save a data set with rows")
    return total, True


def _write_pictures(
    listed: Sequence[tuple[_Saved, Path]], target: Path, column: str, most_bytes: int | None
) -> bool:
    """Write each picture as a file, and the other columns into a CSV; return whether these are all rows."""
    total = 0
    names = [
        name for name, feature in listed[0][0].features.items() if name != column and _is_scalar(feature)
    ]
    with (target / LABEL_FILE).open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["file", *names])
        for saved, folder in listed:
            folder.mkdir(exist_ok=True)
            number = 0
            for batch in saved.read([column, *names]):
                for row in batch.to_pylist():
                    number += 1
                    data = _read_picture(row[column], saved, number)
                    file = folder / f"{number:08}{_find_ending(data)}"
                    file.write_bytes(data)
                    cells = ["" if row[name] is None else row[name] for name in names]
                    table.writerow([file.relative_to(target).as_posix(), *cells])
                    total += len(data)
                    if most_bytes is not None and total > most_bytes:
                        return False
    return True


def _read_picture(value: Any, saved: _Saved, number: int) -> bytes:
    data = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(data, bytes):
        where = f"row {number:,} of `{saved.name or 'the data set'}`"
        path = value.get("path") if isinstance(value, dict) else None
        if path:
            raise UserError(
                f"{where} has no image but the path `{clip_text(str(path))}`, which is of another machine",
                "save the data set with the images in it: `embed_external_files` of `datasets`",
            )
        raise UserError(f"{where} has no image", "leave such rows out before the data set is saved")
    return data


def _find_ending(data: bytes) -> str:
    if data[:4] == b"RIFF":
        return ".webp"
    if data[:2] in (b"II", b"MM"):
        return ".tif"
    return next((ending for start, ending in _FORMATS if data.startswith(start)), PICTURES[0])


def _is_scalar(feature: Any) -> bool:
    return isinstance(feature, dict) and feature.get("_type") in ("Value", "ClassLabel")
