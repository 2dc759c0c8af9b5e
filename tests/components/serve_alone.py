"""Load a saved model as anybody would and measure it; our own packages are made impossible to import."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

for package in ("wsshards", "wstrain", "wstrain_torch", "wstrain_tensorflow", "transformers", "peft"):
    sys.modules[package] = None  # type: ignore[assignment]

import mlflow  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402


def column(shards: Path, split: str, number: int) -> Any:
    files = sorted((shards / split).iterdir())
    batches = [pa.ipc.open_file(pa.memory_map(str(file))).get_batch(0).column(number) for file in files]
    return np.concatenate([(batch.flatten() if number == 0 else batch).to_numpy() for batch in batches])


def classes(model: Any, shards: Path) -> dict[str, Any]:
    features = column(shards, "validation", 0).reshape(-1, 1, 8, 8)
    features = features.astype(np.float32) * stored_scale(shards)
    labels = column(shards, "validation", 1)
    answers = model.predict(features)
    return {
        "accuracy": float((answers.argmax(1) == labels).mean()),
        "shape": list(answers.shape),
        "alone": list(model.predict(features[:1]).shape),
        "sums": float(answers.sum(1).mean()),
    }


def stored_scale(shards: Path) -> np.float32:
    described = json.loads((shards / "manifest.json").read_text())["features"]
    return np.float32(described.get("scale", 1.0))


def text(model: Any, shards: Path) -> dict[str, Any]:
    train, held_out = (column(shards, split, 0).reshape(-1, 129) for split in ("train", "validation"))
    held_out = held_out[:500]
    scores = model.predict(held_out[:, :-1]).astype(np.float64)
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    targets = held_out[:, 1:].astype(np.int64)
    bits = -np.take_along_axis(scores, targets[..., None], -1).mean() / np.log(2)
    counts = np.full((256, 256), 0.1)
    np.add.at(counts, (train[:, :-1].ravel(), train[:, 1:].ravel()), 1)
    pairs = -np.log2((counts / counts.sum(1, keepdims=True))[held_out[:, :-1], targets]).mean()
    return {"bits": bits, "pairs": pairs, "alone": list(model.predict(held_out[:1, :5]).shape)}


if __name__ == "__main__":
    loaded = mlflow.pyfunc.load_model(sys.argv[1])
    folder = Path(sys.argv[2])
    measure = text if "tokens" in (folder / "manifest.json").read_text() else classes
    print(json.dumps({**measure(loaded, folder), "metadata": loaded.metadata.metadata["worldsize"]}))
