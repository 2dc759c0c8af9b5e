"""Shards folders written directly, for tests of what reads them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wsshards import manifest as m
from wsshards import terms


def write_shards(
    folder: Path,
    task: str,
    splits: dict[str, tuple[Any, Any]],
    *,
    label: m.Label | None = None,
    features: m.Features | None = None,
    shards: int = 2,
) -> m.Manifest:
    """Write `{split: (features [n, …], labels [n, …] | None)}` as a shards folder; returns its manifest.

    A regression's mean and deviation are filled in from the training rows.
    """
    rows, targets = splits["train"]
    if features is None:
        features = m.Features("features", str(rows.dtype), tuple(rows.shape[1:]))
    if task == terms.REGRESSION:
        assert label is not None
        deviation = np.where(targets.std(0) > 0, targets.std(0), 1.0)
        label = m.Label(label.names, (), tuple(targets.mean(0).tolist()), tuple(deviation.tolist()))
    written = {
        name: _write_split(
            folder,
            name,
            task=task,
            rows=splits[name][0],
            labels=splits[name][1],
            features=features,
            count=shards if name == "train" else 1,
        )
        for name in terms.SPLITS
        if name in splits
    }
    manifest = m.Manifest(task, "test", 0, features, label, **{"validation": m.Split(0, ()), **written})
    (folder / m.MANIFEST_NAME).write_text(m.manifest_to_json(manifest), encoding="utf-8")
    return manifest


def _write_split(
    folder: Path, name: str, *, task: str, rows: Any, labels: Any, features: m.Features, count: int
) -> m.Split:
    (folder / name).mkdir(parents=True)
    shards = []
    for number, part in enumerate(np.array_split(np.arange(len(rows)), count)):
        columns = {features.name: _column(rows[part].reshape(len(part), -1))}
        if labels is not None:
            columns[terms.LABEL_COLUMN] = _column(np.asarray(labels[part], terms.LABEL_DTYPES[task]))
        path = folder / name / f"shard-{number:05d}.arrow"
        table = pa.table(columns)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        shards.append(m.Shard(f"{name}/{path.name}", len(part), path.stat().st_size, digest))
    return m.Split(len(rows), tuple(shards))


def _column(values: Any) -> Any:
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def write_blobs(folder: Path) -> None:
    """Write shards of three classes around three points; 4 steps of 32 an epoch."""
    draw = np.random.default_rng(3)

    def rows(count: int) -> tuple[Any, Any]:
        labels = draw.integers(0, 3, count)
        return (draw.normal(size=(count, 6)) + 2 * np.eye(6)[labels]).astype(np.float32), labels

    label = m.Label(("y",), ("a", "b", "c"))
    write_shards(folder, terms.CLASSIFICATION, {"train": rows(128), "validation": rows(37)}, label=label)
