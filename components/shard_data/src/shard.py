"""Entry point of `shard_data`: read a source once, split and shuffle it, write shards and a manifest."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from classes import ClassIndex
from encoded_shards import make_writer
from media_arguments import add_media_options, media_options
from shards import FULL, Labels, clear, shard_sizes, sync
from sources import open_source
from sources.common import Source, ahead
from spill import Rows, Spill

from wsshards import manifest as contents
from wsshards.errors import UserError, describe_error, run_main
from wssources.find_files import FORMATS
from wssources.row_faults import check_rows
from wssources.split import U64, find_thresholds, hash_rows, shuffle_keys

Codes = npt.NDArray[np.int32]
Piece = tuple[npt.NDArray[Any], npt.NDArray[np.int64], tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]


def main() -> None:
    """Shard the data that the command line names."""
    options = parse()
    try:
        shard(options)
    except MemoryError:
        raise UserError(
            f"`{options.source}` takes more memory than there is here", "lower `memory_limit_mib`"
        ) from None


def shard(options: argparse.Namespace) -> None:
    """Read the source and fill the folder; if that fails, leave the folder without shards."""
    folder = Path(options.shards)
    source = open_source(
        options.source,
        options.data,
        kind=options.format,
        label=options.label,
        features=tuple(name.strip() for name in options.features.split(",") if name.strip()),
        sequence_length=options.sequence_length,
        memory=options.memory_limit_mib << 20,
        media=media_options(options),
    )
    # A quarter of the limit leaves room for the copies that sorting makes.
    store = Spill(*source.row_layout, options.memory_limit_mib * (1 << 20) // 4)
    try:
        with closing(store):
            manifest = write(source, store, folder, options)
    except OSError as error:
        clear(folder)
        raise _disk(error, folder) from None
    except BaseException:
        clear(folder)
        raise
    _report(manifest)


def parse() -> argparse.Namespace:
    """Parse the command line in `component.yml`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default=".")
    parser.add_argument("--data", default="")
    parser.add_argument("--format", choices=FORMATS, default="auto")
    parser.add_argument("--label", default="label")
    parser.add_argument("--features", default="")
    parser.add_argument("--sequence_length", type=int, default=128)
    parser.add_argument("--shard_count", type=int, default=1)
    parser.add_argument("--validation_fraction", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory_limit_mib", type=int, default=512)
    add_media_options(parser)
    parser.add_argument("--shards", required=True)
    options = parser.parse_args()
    for name, low in (("sequence_length", 1), ("shard_count", 1), ("seed", 0), ("memory_limit_mib", 1)):
        if getattr(options, name) < low:
            raise UserError(f"`{name}` is {getattr(options, name)}", f"give a whole number of at least {low}")
    if options.shard_count > contents.MAX_SHARDS:
        raise UserError(
            f"`shard_count` is {options.shard_count:,}",
            f"give a whole number of at most {contents.MAX_SHARDS:,}",
        )
    if any("\ud800" <= character <= "\udfff" for character in options.source):  # the manifest names it
        raise UserError(f"the name `{options.source}` is not UTF-8", "rename the file or folder")
    if not 0 <= options.validation_fraction < 1:
        raise UserError(
            f"`validation_fraction` is {options.validation_fraction}", "give at least 0 and less than 1"
        )
    return options


def write(source: Source, store: Spill, folder: Path, options: argparse.Namespace) -> contents.Manifest:
    """Fill the folder and return its manifest, which is written last."""
    classes = ingest(source, store, options)
    names, final = classes.order() if source.label else ((), np.zeros(1, np.int32))
    rows = classes.rows if source.label else [store.rows]
    limits = find_thresholds(store.index, rows, options.validation_fraction)
    if source.divided:  # held out is what has the hash 0
        limits = np.ones(len(rows), np.uint64)
    held_out = sum(int((hashes < limits[codes]).sum()) for hashes, codes in store.index())
    check_rows(store.rows - held_out, rows, names, options.source, options.shard_count)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / contents.MANIFEST_NAME).unlink(missing_ok=True)  # until the end the folder is incomplete
    source.write(folder)
    pieces = scattered(store, limits, final)
    train, validation = save(source, pieces, (store.rows - held_out, held_out), folder, options.shard_count)
    result = contents.Manifest(
        task=source.task,
        source=options.source,
        seed=options.seed,
        features=source.features,
        label=contents.Label((source.label,), names) if source.label else None,
        train=train,
        validation=validation,
    )
    tokenizer = [source.features.tokenizer.path] if source.features.tokenizer else []
    clear(folder, [shard.path for split in (train, validation) for shard in split.shards] + tokenizer)
    publish(folder, contents.manifest_to_json(result))
    return result


def ingest(source: Source, store: Spill, options: argparse.Namespace) -> ClassIndex:
    """Read the source once: number, hash and store every row."""
    classes = ClassIndex(source.label or "")
    for batch in ahead(source.batches()):
        first, count = store.rows, len(batch.features)
        codes = classes.encode(batch.labels, first) if source.label else np.zeros(count, np.int32)
        keys = shuffle_keys(first, count, options.seed)
        identity = batch.features if batch.identity is None else np.ascontiguousarray(batch.identity)
        hashes = (
            hash_rows(identity, options.seed) if batch.part is None else (1 - batch.part).astype(np.uint64)
        )
        store.put(Rows(keys, hashes, codes, batch.features))
    return classes


def scattered(store: Spill, limits: U64, final: Codes) -> Iterator[Piece]:
    """Yield all rows in shuffled order, in pieces: features, labels, and the rows of each part."""
    for rows, order in store.ordered():
        held_out = (rows.hashes < limits[rows.codes])[order]
        yield rows.features, final[rows.codes].astype(np.int64), (order[~held_out], order[held_out])


def save(
    source: Source, pieces: Iterator[Piece], rows: tuple[int, int], folder: Path, shard_count: int
) -> tuple[contents.Split, contents.Split]:
    """Write the rows of both parts, `rows` in total, as shards."""
    counts = (shard_count, max(1, min(shard_count, rows[1])))
    labels = Labels("int64") if source.label else None
    with ThreadPoolExecutor(2) as pool:
        sides = [
            make_writer(folder, name, shard_sizes(total, count), source, labels, pool=pool)
            for name, total, count in zip(("train", "validation"), rows, counts, strict=True)
        ]
        for features, labels, orders in pieces:
            for side, order in zip(sides, orders, strict=True):
                side.add(features, labels, order)
        return sides[0].finish(), sides[1].finish()


def publish(folder: Path, text: str) -> None:
    """Write the manifest atomically."""
    temporary = folder / f".{contents.MANIFEST_NAME}.part"
    temporary.write_text(text, encoding="utf-8")
    sync(temporary)
    temporary.rename(folder / contents.MANIFEST_NAME)
    sync(folder)


def _disk(error: OSError, folder: Path) -> UserError:
    spilling = f"shards in `{folder}` or temporary files in `{tempfile.gettempdir()}`"
    if error.errno in FULL:
        return UserError(
            f"the disk is full while writing {spilling}: {describe_error(error)}",
            "free space or use a larger disk",
        )
    return UserError(f"cannot write {spilling}: {describe_error(error)}", "check that both are writable")


def _report(manifest: contents.Manifest) -> None:
    for name in contents.SPLITS:
        split = manifest.split(name)
        size = sum(shard.bytes for shard in split.shards)
        print(f"{name}: {split.rows:,} rows in {len(split.shards)} shards, {size:,} bytes")


if __name__ == "__main__":
    run_main(main)
