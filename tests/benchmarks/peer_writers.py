"""Writes shuffled, split shards as the peers do: `python peer_writers.py PEER JOB SOURCE OUT`.

Peers are `datasets`, `litdata` and `mds` (MosaicML's streaming), each used for speed: two processes, rows in
blocks. All leave the SHA-256 of every file they write. Jobs are `text` (windows of bytes), `floats`
(SOURCE/rows.npy), `tokens` (windows of tokens of JSON Lines, by SOURCE/tokenizer.json; documents are shuffled
only within a file, and none are held out) and `pictures` (files as they are).
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import multiprocessing
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 1025  # values of a row: a sequence and the token that follows it
BLOCK = 4096  # rows that are taken at a time
WORKERS, SHARDS, HELD_OUT = 2, 8, 0.2
CHUNK = "64MB"


def main() -> None:
    """Do the job that the command line names."""
    peer, job, source, out = sys.argv[1:5]
    os.environ["HF_HUB_OFFLINE"] = "1"
    {"datasets": write_datasets, "litdata": write_litdata, "mds": write_mds}[peer](
        job, Path(source), Path(out)
    )
    files = sorted(file for file in Path(out).rglob("*") if file.is_file() and "cache" not in file.parts)
    if peer == "mds":  # has hashed its shards while it wrote them
        files = []
    with multiprocessing.Pool(WORKERS) as pool:
        (Path(out) / "sha256.json").write_text(json.dumps(pool.map(hash_file, files)))


def hash_file(file: Path) -> str:
    """Return the SHA-256 of a file that is on disk."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest()


@functools.cache
def text_windows(source: Path) -> list[Any]:
    """Map the files of a corpus as rows `[n, WIDTH]` of bytes, or an array as its own rows."""
    if (source / "rows.npy").exists():
        return [np.load(source / "rows.npy", mmap_mode="r")]
    mapped = [np.memmap(file, np.uint8, "r") for file in sorted(source.glob("*.txt"))]
    return [each[: len(each) // WIDTH * WIDTH].reshape(-1, WIDTH) for each in mapped]


def take_windows(source: Path, rows: Any) -> Any:
    """Return the rows of a corpus by number."""
    windows = text_windows(source)
    starts = np.cumsum([0, *(len(each) for each in windows)])
    found = np.empty((len(rows), windows[0].shape[1]), windows[0].dtype)
    for number, each in enumerate(windows):
        inside = (rows >= starts[number]) & (rows < starts[number + 1])
        found[inside] = each[rows[inside] - starts[number]]
    return found


def token_windows(source: Path, part: int, parts: int) -> Iterator[Any]:
    """Yield blocks `[n, WIDTH]` of tokens of every `parts`-th file; documents are shuffled within a file."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    end = np.array([tokenizer.token_to_id("<|endoftext|>")], np.uint16)
    rest = np.zeros(0, np.uint16)
    for number, file in enumerate(sorted(source.glob("*.jsonl"))[part::parts]):
        lines = file.read_bytes().splitlines()
        order = np.random.default_rng(number).permutation(len(lines)).tolist()
        for start in range(0, len(order), 256):
            texts = [json.loads(lines[line])["text"] for line in order[start : start + 256]]
            encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            pieces = [np.asarray(each.ids, np.uint16) for each in encoded]
            rest = np.concatenate([rest, *itertools.chain.from_iterable((piece, end) for piece in pieces)])
            count = len(rest) // WIDTH
            if count:
                yield rest[: count * WIDTH].reshape(count, WIDTH)
            rest = rest[count * WIDTH :]


def pictures_of(source: Path) -> list[tuple[str, int]]:
    """Return the files and classes of a folder of pictures, in the order of a shuffle."""
    files = [
        (entry.path, label)
        for label, folder in enumerate(sorted(source.iterdir()))
        for entry in os.scandir(folder)
    ]
    files.sort()
    return [files[place] for place in np.random.default_rng(0).permutation(len(files)).tolist()]


def text_blocks(source: Path) -> dict[str, list[Any]]:
    """Return the numbers of shuffled rows for each part, in blocks."""
    total = sum(len(each) for each in text_windows(source))
    order = np.random.default_rng(0).permutation(total)
    cut = int(total * HELD_OUT)
    sides = {"validation": order[:cut], "train": order[cut:]}
    return {name: np.array_split(rows, -(-len(rows) // BLOCK)) for name, rows in sides.items()}


def write_datasets(job: str, source: Path, out: Path) -> None:
    """Write with Hugging Face datasets."""
    import datasets
    import pyarrow as pa

    datasets.disable_progress_bars()
    cache = str(out / "cache")
    if job in ("text", "floats"):
        columns = [
            pa.FixedSizeListArray.from_arrays(pa.array(each.reshape(-1)), each.shape[1])
            for each in text_windows(source)
        ]
        rows = datasets.Dataset(datasets.table.InMemoryTable(pa.table({"tokens": pa.chunked_array(columns)})))
    elif job == "tokens":
        kind = datasets.Features({"tokens": datasets.List(datasets.Value("uint16"), length=WIDTH)})
        rows = datasets.Dataset.from_generator(
            _token_rows,
            features=kind,
            cache_dir=cache,
            num_proc=WORKERS,
            gen_kwargs={"source": [source] * WORKERS, "part": list(range(WORKERS))},
        )
    else:
        kind = datasets.Features({"image": datasets.Value("binary"), "label": datasets.Value("int64")})
        rows = datasets.Dataset.from_generator(
            _picture_rows,
            features=kind,
            cache_dir=cache,
            num_proc=WORKERS,
            gen_kwargs={"files": pictures_of(source)},
        )
    for name, half in rows.train_test_split(HELD_OUT, seed=0).items():
        half.save_to_disk(
            str(out / name), num_shards=SHARDS, num_proc=WORKERS if job in ("tokens", "pictures") else None
        )


def _token_rows(source: list[Path], part: list[int]) -> Iterator[dict[str, Any]]:
    for folder, number in zip(source, part, strict=True):
        for block in token_windows(folder, number, WORKERS):
            yield from ({"tokens": row} for row in block)


def _picture_rows(files: list[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    for path, label in files:
        with Path(path).open("rb") as stream:
            yield {"image": stream.read(), "label": label}


def write_litdata(job: str, source: Path, out: Path) -> None:
    """Write with LitData."""
    import litdata

    more: dict[str, Any] = {"chunk_bytes": CHUNK}
    if job in ("text", "tokens"):
        more = {"chunk_size": WIDTH * (60 << 10), "item_loader": litdata.TokensLoader(block_size=WIDTH)}
    if job in ("text", "floats"):
        sides = text_blocks(source)
    elif job == "tokens":
        sides = {"train": list(range(WORKERS))}
    else:
        files = pictures_of(source)
        cut = int(len(files) * HELD_OUT)
        sides = {"validation": files[:cut], "train": files[cut:]}
    make = {
        "text": _litdata_text,
        "floats": _litdata_floats,
        "tokens": _litdata_tokens,
        "pictures": _litdata_picture,
    }[job]
    for name, inputs in sides.items():
        litdata.optimize(
            functools.partial(make, source=source), inputs, str(out / name),
            num_workers=WORKERS, reorder_files=False, verbose=False, start_method="fork", **more,
        )  # fmt: skip


def _litdata_text(rows: Any, source: Path) -> Any:
    import torch

    return torch.from_numpy(take_windows(source, rows).reshape(-1))


def _litdata_floats(rows: Any, source: Path) -> Iterator[Any]:
    import torch

    yield from ({"features": torch.from_numpy(row)} for row in take_windows(source, rows))


def _litdata_tokens(part: int, source: Path) -> Iterator[Any]:
    import torch

    for block in token_windows(source, part, WORKERS):
        yield torch.from_numpy(block.reshape(-1))


def _litdata_picture(file: tuple[str, int], source: Path) -> dict[str, Any]:
    with Path(file[0]).open("rb") as stream:
        return {"image": stream.read(), "label": file[1]}


def write_mds(job: str, source: Path, out: Path) -> None:
    """Write with MosaicML's streaming."""
    import_streaming()
    from streaming.base.util import merge_index

    if job in ("text", "floats"):
        sides: dict[str, list[Any]] = text_blocks(source)
    elif job == "tokens":
        sides = {"train": list(range(WORKERS))}
    else:
        files = pictures_of(source)
        cut = int(len(files) * HELD_OUT)
        sides = {"validation": files[:cut], "train": files[cut:]}
    work = [
        (job, source, out / name / str(part), items[part::WORKERS])
        for name, items in sides.items()
        for part in range(WORKERS)
    ]
    with multiprocessing.Pool(WORKERS) as pool:
        pool.starmap(_write_mds_part, work, chunksize=1)
    for name in sides:
        merge_index(str(out / name), keep_local=True)


def _write_mds_part(job: str, source: Path, out: Path, items: list[Any]) -> None:
    from streaming.base import MDSWriter

    columns = {
        "text": {"tokens": f"ndarray:uint8:{WIDTH}"},
        "floats": {"tokens": "ndarray:float32"},
        "tokens": {"tokens": f"ndarray:uint16:{WIDTH}"},
        "pictures": {"image": "bytes", "label": "int"},
    }[job]
    with MDSWriter(out=str(out), columns=columns, hashes=["sha256"], size_limit=CHUNK.lower()) as writer:
        if job == "pictures":
            for row in _picture_rows(items):
                writer.write(row)
            return
        for item in items:
            blocks = (
                [take_windows(source, item)]
                if job in ("text", "floats")
                else token_windows(source, item, WORKERS)
            )
            for block in blocks:
                for row in block:
                    writer.write({"tokens": row})


def import_streaming() -> None:
    """Import MosaicML's streaming without its data sets of pictures, which need torchvision."""
    sys.modules.setdefault("streaming.vision", types.ModuleType("streaming.vision"))
    import streaming  # noqa: F401


if __name__ == "__main__":
    main()
