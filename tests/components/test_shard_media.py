"""Images and texts are divided in three, and labelled, by what divides and labels the rows of tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wsshards import manifest as contents
from wsshards import terms
from wsshards.verify import verify_shards

np = pytest.importorskip("numpy")
Run = Callable[..., Any]


def _shard(shard: Run, out: Path, **values: Any) -> contents.Manifest:
    done = shard(shards=out, **values)
    assert done.returncode == 0, done.stderr
    manifest = contents.read_manifest(out)
    verify_shards(out, manifest)
    return manifest


def _rows(out: Path, manifest: contents.Manifest) -> dict[str, tuple[Any, Any]]:
    """Features and labels of each part that has rows."""
    from wsshards.reader import ShardReader

    rows = {name: manifest.split(name).rows for name in terms.SPLITS}
    return {name: ShardReader(out, name).gather(np.arange(count)) for name, count in rows.items() if count}


def _draw(folder: Path, count: int, labels: Callable[[int], str]) -> Path:
    """Grey pictures of brightness 4n, each twice, and a CSV with their labels."""
    from PIL import Image

    folder.mkdir()
    lines = []
    for number in range(count):
        for copy in "ab":
            Image.new("L", (8, 8), 4 * number).save(folder / f"{number}{copy}.png")
            lines.append(f"{number}{copy}.png,{labels(number)}\n")
    header = ",".join(["file", *(f"t{place}" for place in range(labels(0).count(",") + 1))])
    (folder / "labels.csv").write_text(header + "\n" + "".join(lines))
    return folder


@pytest.mark.parametrize("storage", ["pixels", "jpeg"])
def test_targets_of_pictures(shard: Run, tmp_path: Path, storage: str) -> None:
    data = _draw(tmp_path / "d", 40, lambda number: f"{number / 8},{-number}")
    plan = {"label": "t0,t1", "image_storage": storage, "test_fraction": 0.2, "shard_count": 2}
    manifest = _shard(shard, tmp_path / "out", data=data, memory_limit_mib=16, **plan)
    assert (manifest.task, manifest.label.names) == ("regression", ("t0", "t1"))  # type: ignore[union-attr]
    parts = _rows(tmp_path / "out", manifest)
    assert [len(labels) for _, labels in parts.values()] == [48, 16, 16]
    shown = {}
    for name, (features, labels) in parts.items():
        level = np.rint(features.reshape(len(labels), -1).mean(axis=1) * 255 / 4)
        np.testing.assert_array_equal(labels, np.stack([level / 8, -level], axis=1))
        shown[name] = set(level.tolist())
    assert sum(map(len, shown.values())) == len(set.union(*shown.values())) == 40  # copies are together
    np.testing.assert_allclose(manifest.label.mean, parts["train"][1].mean(axis=0))  # type: ignore[union-attr]


def test_several_labels_of_pictures(shard: Run, tmp_path: Path) -> None:
    colours = ("red", "blue", "red; blue")
    data = _draw(tmp_path / "d", 30, lambda number: colours[number % 3])
    manifest = _shard(shard, tmp_path / "out", data=data, label="t0", shard_count=1)
    assert (manifest.task, manifest.label.classes) == ("multi_label", ("blue", "red"))  # type: ignore[union-attr]
    features, labels = _rows(tmp_path / "out", manifest)["train"]
    level = np.rint(features.reshape(len(labels), -1)[:, 0] * 255 / 4).astype(int)
    np.testing.assert_array_equal(labels, np.stack([level % 3 != 0, level % 3 != 1], axis=1))


def test_documents_are_divided_in_three(shard: Run, tmp_path: Path) -> None:
    rows = [{"body": chr(0x30 + number) * 60} for number in range(60)]
    rows[7] = {"body": ""}
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = {"text": "body", "sequence_length": 19, "test_fraction": 0.3, "missing": "drop"}
    manifest = _shard(shard, tmp_path / "out", data=tmp_path / "d.jsonl", shard_count=2, **plan)
    assert manifest.task == "language_model"
    seen = {
        name: set(tokens.reshape(-1).tolist()) - {256}
        for name, (tokens, _) in _rows(tmp_path / "out", manifest).items()
    }
    assert {name: len(found) for name, found in seen.items()} == {"train": 29, "validation": 12, "test": 18}
    assert len(set.union(*seen.values())) == 59


def test_texts_of_classes_are_divided_in_three(shard: Run, tmp_path: Path) -> None:
    for name in ("bad", "good"):
        (tmp_path / "d" / name).mkdir(parents=True)
        for number in range(20):
            (tmp_path / "d" / name / f"{number}.txt").write_text(f"{name} {number}")
            (tmp_path / "d" / name / f"{number} again.txt").write_text(f"{name} {number}")
    plan = {"task": "classification", "test_fraction": 0.25, "validation_fraction": 0.25}
    manifest = _shard(shard, tmp_path / "out", data=tmp_path / "d", shard_count=2, **plan)
    parts = _rows(tmp_path / "out", manifest)
    assert [np.bincount(labels).tolist() for _, labels in parts.values()] == [[20, 20], [10, 10], [10, 10]]
    texts = [{bytes(row.tolist()[:10]) for row in features % 256} for features, _ in parts.values()]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 40
