"""Reads shards in shuffled batches: `python peer_readers.py PEER JOB FOLDER SECONDS WORKERS`.

Prints samples a second, after the first 4 batches, as PyTorch tensors: float32 rows, int64 tokens, and
pictures decoded and resized to float32 `[3, 224, 224]` from 0 to 1. Folders are those of `peer_writers.py`,
and for `worldsize` that of `shard_data`.
"""

from __future__ import annotations

import io
import json
import sys
import time
import types
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

BATCH, SIDE, WARM = 256, 224, 4
WIDTH = 1025


def main() -> None:
    """Read for some seconds, and print the rate."""
    peer, job, folder, seconds, workers = sys.argv[1:6]
    open_batches = {
        "datasets": open_datasets,
        "litdata": open_litdata,
        "mds": open_mds,
        "worldsize": open_worldsize,
    }
    batches = open_batches[peer](job, Path(folder), int(workers))
    print(json.dumps(count_samples(batches, float(seconds))))


def count_samples(batches: Iterable[Any], seconds: float) -> float:
    """Return samples a second."""
    stream = iter(batches)
    for _ in islice(stream, WARM):
        pass
    start, rows = time.perf_counter(), 0
    for batch in stream:
        rows += len(next(iter(batch.values())) if isinstance(batch, dict) else batch)
        if time.perf_counter() - start > seconds:
            break
    return rows / (time.perf_counter() - start)


def decode(data: bytes) -> Any:
    """Return a JPEG as a tensor `[3, 224, 224]`."""
    from PIL import Image

    picture = Image.open(io.BytesIO(data)).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.asarray(picture).transpose(2, 0, 1).astype(np.float32) / 255)


def prepare(job: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return one sample as a model takes it."""
    if job == "pictures":
        return {"image": decode(row["image"]), "label": row["label"]}
    (name, values), *_ = row.items()
    values = torch.as_tensor(np.asarray(values))
    return {name: values.long() if job == "text" else values}


def open_datasets(job: str, folder: Path, workers: int) -> Any:
    """Open what Hugging Face datasets wrote."""
    import datasets

    rows = datasets.load_from_disk(str(folder / "train"))
    if job == "pictures":
        rows = rows.with_transform(
            lambda batch: {"image": [decode(data) for data in batch["image"]], "label": batch["label"]}
        )
    else:
        rows = rows.with_format("torch")
    return torch.utils.data.DataLoader(rows, batch_size=BATCH, shuffle=True, num_workers=workers)


def open_litdata(job: str, folder: Path, workers: int) -> Any:
    """Open what LitData wrote."""
    import litdata

    class Rows(litdata.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            row = super().__getitem__(index)
            return prepare(job, row if isinstance(row, dict) else {"tokens": row})

    more = {"item_loader": litdata.TokensLoader(block_size=WIDTH)} if job == "text" else {}
    rows = Rows(str(folder / "train"), shuffle=True, drop_last=True, **more)
    return litdata.StreamingDataLoader(rows, batch_size=BATCH, num_workers=workers)


def open_mds(job: str, folder: Path, workers: int) -> Any:
    """Open what MosaicML's streaming wrote."""
    sys.modules.setdefault("streaming.vision", types.ModuleType("streaming.vision"))
    import streaming

    class Rows(streaming.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return prepare(job, super().__getitem__(index))

    rows = Rows(local=str(folder / "train"), shuffle=True, batch_size=BATCH)
    return torch.utils.data.DataLoader(rows, batch_size=BATCH, num_workers=workers)


def open_worldsize(job: str, folder: Path, workers: int) -> Any:
    """Open what `shard_data` wrote, as our trainers do."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "components" / "_shared"))
    from wsshards.reader import ShardReader
    from wstrain.data.sampler import GlobalBatchSampler
    from wstrain_torch.data import BatchLoader, read_task

    reader = ShardReader(folder, "train")
    loader = BatchLoader(
        reader, GlobalBatchSampler(len(reader), BATCH, 0), read_task(reader.manifest),
        rank=0, world_size=1, accumulation=1, device=torch.device("cpu"), workers=workers,
    )  # fmt: skip
    return (inputs for inputs, _ in loader.stream(0, 10_000_000))


if __name__ == "__main__":
    main()
