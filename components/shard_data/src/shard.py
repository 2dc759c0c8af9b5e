"""Entry point of `shard_data`: read a source once, split and shuffle it, write shards and a manifest."""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from division import Division
from encoded_shards import make_writer
from encoders import ColumnEncoders
from feed_tally import FeedTally
from labels import ClassLabels, LabelEncoder, make_encoder
from options import media_options, parse_options
from shards import Labels, clear, shard_sizes
from sources import open_source
from sources.common import Source, ahead
from spill import Rows, Spill

from wsleaks.shards import find_in_shards
from wsshards import manifest as contents
from wsshards import terms
from wsshards.errors import NO_ROOM, UserError, clip_text, describe_error, print_warning, run_main
from wsshards.whole_file import write_whole
from wssources.column_kinds import parse_column_types
from wssources.name_lists import split_names
from wssources.request import Request
from wssources.source_urls import mask_address
from wssources.split import hash_rows, shuffle_keys
from wssources.split_settings import TEST, TRAIN, VALIDATION, make_split

_HASHING = 1  # raised when `hash_rows` or `hash_group` changes
_HASHED = ("seed", "split_by", "label", "features", "missing", "column_types", "text")  # inputs
MAX_WARNINGS = 5  # columns that are named because they alone tell the label
Array = npt.NDArray[Any]
Piece = tuple[Array, Array, Array, list[npt.NDArray[np.int64]]]


def main() -> None:
    """Shard the data that the command line names."""
    options = parse_options()
    try:
        shard(options)
    except MemoryError:
        raise UserError(
            f"`{mask_address(options.source)}` takes more memory than there is here",
            "lower `memory_limit_mib`",
        ) from None


def shard(options: argparse.Namespace) -> None:
    """Read the source and fill the folder; if that fails, leave the folder without shards."""
    with tempfile.TemporaryDirectory(prefix="shard_data-") as scratch:
        _shard(options, Path(options.shards), Path(scratch))


def _shard(options: argparse.Namespace, folder: Path, scratch: Path) -> None:
    request = Request(
        root=Path(),
        files=(),
        label=options.label,
        features=split_names(options.features),
        sequence_length=options.sequence_length,
        memory=options.memory_limit_mib << 20,
        task=options.task,
        missing=options.missing,
        column_types=parse_column_types(options.column_types),
        split=make_split(vars(options), options.seed),
        seed=options.seed,
        media=media_options(options),
    )
    source = open_source(options.source, options.data, options.format, request, scratch=scratch)
    if source.decision is not None:
        print(f"task: {source.task}, because {source.decision.reason}")
    labels = make_encoder(source)
    # A quarter of the limit leaves room for the copies that sorting makes.
    room = options.memory_limit_mib * (1 << 20) // 4
    store = Spill(*source.row_layout, room, (labels.width, labels.dtype))
    try:
        with closing(store):
            manifest = write(source, store, labels, folder, options)
    except OSError as error:
        clear(folder)
        raise _disk(error, folder) from None
    except BaseException:
        clear(folder)
        raise
    _report(manifest)
    for column in find_in_shards(folder, terms.SPLITS[TRAIN])[:MAX_WARNINGS]:
        print_warning(f"{column.describe(options.label)}; {column.help}")
    if any(column.name == options.split_by for column in manifest.features.columns):
        print_warning(
            f"column `{clip_text(options.split_by)}` divides the rows, so no value of it is in two parts, and"
            " nothing is learned from it that helps on new rows; leave it out of `features`"
        )


def write(
    source: Source, store: Spill, labels: LabelEncoder, folder: Path, options: argparse.Namespace
) -> contents.Manifest:
    """Fill the folder and return its manifest, which is written last."""
    division = Division(
        make_split(vars(options), options.seed),
        options.memory_limit_mib << 20,
        source.fixed,
        bounds=source.bounds,
        grouped=source.grouped,
    )
    feed = FeedTally(source, labels, options)
    ingest(source, store, labels, division, seed=options.seed, feed=feed)
    division.find_limits(store)
    counts = division.count(store)
    labels.check(counts[TRAIN], store.rows, mask_address(options.source), options.shard_count)
    division.expect_held_out(counts)
    judged = feed.judge()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / contents.MANIFEST_NAME).unlink(missing_ok=True)  # until the end the folder is incomplete
    source.write(folder)
    encoders = ColumnEncoders(source.features, source.codes)
    encoders.find_categories(rows.features[division.parts(rows) == TRAIN] for rows in store.pieces())
    pieces = scattered(store, division, labels, encoders)
    hashed = is_proven(source, division)
    written = save(source, pieces, counts, folder, options.shard_count, labels=labels.written, hashed=hashed)
    result = contents.Manifest(
        task=source.task,
        source=mask_address(options.source),
        feed=judged.write(folder),
        seed=options.seed,
        features=encoders.describe(),
        label=labels.describe(),
        train=written[TRAIN],
        validation=written[VALIDATION],
        test=written[TEST],
        division=describe_division(source, division, labels, options),
    )
    kept = [shard.path for split in written for shard in split.shards] + [contents.FEED_NAME]
    kept += [source.features.tokenizer.path] if source.features.tokenizer else []
    clear(folder, kept)
    write_whole(folder / contents.MANIFEST_NAME, contents.manifest_to_json(result))
    return result


def describe_division(
    source: Source, division: Division, labels: LabelEncoder, options: argparse.Namespace
) -> contents.Division:
    """Return what the manifest says of how the rows were divided."""
    split = make_split(vars(options), options.seed)
    if source.bounds is not None:
        test_from = division.test_from if source.test_from is None else source.test_from()
        return contents.Division(terms.TIME, source.bounds.column, source.bounds.kind, test_from)
    if split.given:
        return contents.Division(terms.GIVEN)
    method = terms.GROUP if source.grouped else terms.HASH
    limits = division.test_below
    if isinstance(labels, ClassLabels) and not source.grouped:
        limits = [limits[labels.codes[name]] for name in labels.describe().classes]
    if not is_proven(source, division):
        return contents.Division(method, split.by)
    return contents.Division(method, split.by, rule=describe_rule(source, options), test_below=tuple(limits))


def is_proven(source: Source, division: Division) -> bool:
    """Return whether the hash of a row or group always shows in which part it was.

    The windows of a language model are not records of their own: they move when its text grows.
    """
    is_record = source.task != terms.LANGUAGE_MODEL
    return is_record and not source.fixed and source.bounds is None and any(division.test_below)


def describe_rule(source: Source, options: argparse.Namespace) -> str:
    """Return a digest of everything that the hash of a row or group depends on besides its content."""
    features, codes = source.features, source.codes
    depends: dict[str, Any] = {name: getattr(options, name) for name in _HASHED}
    depends |= {"hashing": _HASHING, "kind": source.kind, "task": source.task}
    if codes is not None:
        depends |= {"columns": [*codes.kinds.items()], "dates": codes.date_forms}
    if features.tokenizer is None:
        depends["row"] = features.name, features.disk_dtype, features.shape, features.resize, features.encoded
    if source.kind == "images":
        depends["pillow"] = version("pillow")  # another version may decode other pixels
    text = json.dumps(depends, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def ingest(
    source: Source, store: Spill, labels: LabelEncoder, division: Division, *, seed: int, feed: FeedTally
) -> None:
    """Read the source once: encode, hash, count and store every row."""
    for batch in ahead(source.batches()):
        first, count = store.rows, len(batch.features)
        codes, values = labels.encode(batch.labels, first, count)
        keys = shuffle_keys(first, count, seed)
        hashes = hash_rows(batch.features, seed) if batch.hashes is None else batch.hashes
        parts = np.zeros(count, np.uint8) if batch.parts is None else batch.parts
        division.add(hashes, codes, parts)
        rows = Rows(keys, hashes, codes, parts, values, batch.features)
        feed.add(batch, rows)
        store.put(rows)


def scattered(
    store: Spill, division: Division, labels: LabelEncoder, encoders: ColumnEncoders
) -> Iterator[Piece]:
    """Yield all rows in shuffled order, in pieces: features, labels, hashes, and the rows of each part."""
    for rows, order in store.ordered():
        parts = division.parts(rows)[order]
        marks = labels.decode(rows)
        encoders.recode(rows.features)
        orders = [order[parts == part] for part in range(len(terms.SPLITS))]
        labels.learn(marks, orders[TRAIN])
        encoders.learn(rows.features, orders[TRAIN])
        yield rows.features, marks, rows.hashes, orders


def save(
    source: Source,
    pieces: Iterator[Piece],
    rows: list[int],
    folder: Path,
    shard_count: int,
    *,
    labels: Labels | None,
    hashed: bool,
) -> list[contents.Split]:
    """Write the rows of all parts, `rows` in total, as shards; if ``hashed``, test rows have their hash."""
    counts = (shard_count, *(max(1, min(shard_count, count)) for count in rows[1:]))
    with ThreadPoolExecutor(2) as pool:
        sides = [
            make_writer(
                folder,
                name,
                shard_sizes(total, count),
                source,
                labels,
                hashed=hashed and name == terms.SPLITS[TEST],
                pool=pool,
            )
            for name, total, count in zip(terms.SPLITS, rows, counts, strict=True)
        ]
        for features, marks, hashes, orders in pieces:
            for side, order in zip(sides, orders, strict=True):
                side.add(features, marks, hashes, order)
        return [side.finish() for side in sides]


def _disk(error: OSError, folder: Path) -> UserError:
    spilling = f"shards in `{folder}` or temporary files in `{tempfile.gettempdir()}`"
    if error.errno in NO_ROOM:
        return UserError(
            f"the disk is full while writing {spilling}: {describe_error(error)}",
            "free space or use a larger disk",
        )
    return UserError(f"cannot write {spilling}: {describe_error(error)}", "check that both are writable")


def _report(manifest: contents.Manifest) -> None:
    for name in terms.SPLITS:
        split = manifest.split(name)
        size = sum(shard.bytes for shard in split.shards)
        print(f"{name}: {split.rows:,} rows in {len(split.shards)} shards, {size:,} bytes")


if __name__ == "__main__":
    run_main(main)
