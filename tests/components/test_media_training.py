"""From raw pictures and texts to a trained model: the same loss curve in one process and in two."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wsshards.reader import ShardReader

pytestmark = pytest.mark.run
Shard = Callable[..., Path]
PLAN = {"learning_rate": 0.01, "epochs": 2, "optimizer": "adamw", "gpt_layers": 1, "gpt_width": 32}


@pytest.fixture
def make_shards(shard: Callable[..., Any], tmp_path: Path) -> Shard:
    """Shard a folder with `shard_data` itself."""

    def run(data: Path, **values: Any) -> Path:
        target = tmp_path / "shards"
        done = shard(data=data, shards=target, shard_count=2, **values)
        assert done.returncode == 0, done.stderr
        return target

    return run


@pytest.fixture
def predict(warm: Callable[..., list[str]]) -> Callable[..., Any]:
    """Answer raw inputs where our own packages cannot be imported: `predict(model, "a.png", …)`."""
    code = Path(__file__).with_name("predict_media.py")

    def run(model: Path, *inputs: str) -> Any:
        command = [*warm(), sys.executable, str(code), str(model), *inputs]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def _draw_pictures(folder: Path, count: int = 48) -> Path:
    """Pictures of mixed sizes, modes and formats: the class is which half is bright."""
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(count):
        height, width = random.integers(40, 90, 2)
        pixels = random.integers(0, 80, (height, width, 3), np.uint8)
        side = number % 2
        pixels[height // 2 :] += np.uint8(150 * side)
        pixels[: height // 2] += np.uint8(150 * (1 - side))
        path = folder / ("upper", "lower")[side] / f"{number}.{('jpg', 'png', 'gif')[number % 3]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = "L" if number % 3 == 0 else "RGBA" if number % 3 == 1 else "P"
        Image.fromarray(pixels).convert(mode).save(path)
    return folder


def _write_reviews(file: Path) -> Path:
    words = ("good fine great", "bad poor awful")
    rows = [{"body": f"{words[n % 2]} {n} " * (1 + n % 3), "label": ("pos", "neg")[n % 2]} for n in range(80)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def _curves_agree(training: Callable[..., Any], shards: Path, **values: Any) -> Any:
    """Train in one process and in two, with the same global batch; return the first."""
    plan = {**PLAN, "shards": shards, "global_batch_size": 8, "loader_workers": 2} | values
    one = training(1, batch_size_per_device=4, gradient_accumulation_steps=2, **plan)
    two = training(2, batch_size_per_device=4, **plan)
    assert one.ok, one.errors
    assert two.ok, two.errors
    assert len(one.losses) >= 6
    assert one.losses.keys() == two.losses.keys()
    for step, loss in one.losses.items():
        assert two.losses[step] == pytest.approx(loss, abs=1e-4)
    return one


@pytest.mark.smoke
def test_encoded_pictures_with_augmentation(
    training: Callable[..., Any],
    component: Callable[..., Any],
    make_shards: Shard,
    predict: Callable[..., Any],
    tmp_path: Path,
) -> None:
    shards = make_shards(_draw_pictures(tmp_path / "d"), image_size=32, image_storage="jpeg")
    trained = _curves_agree(training, shards, model="cnn", augmentation="light", epochs=3)
    losses = list(trained.losses.values())
    assert losses[-1] < losses[0]
    files = sorted(map(str, (tmp_path / "d").rglob("*.*")))
    answered = predict(trained.folder / "model", *files)
    assert answered["columns"] == ["label", "lower", "upper"]
    truth = [Path(file).parent.name for file in files]
    assert np.mean([row[0] == label for row, label in zip(answered["rows"], truth, strict=True)]) >= 0.9
    reader = ShardReader(shards, "train")
    done = component("evaluate", model=trained.folder / "model", shards=shards, metrics=tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert reader.manifest.features.resize == "crop"


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed")
@pytest.mark.timeout(400)  # it imports TensorFlow twice, which takes a minute on a busy machine
def test_tensorflow_answers_pictures_too(
    training: Callable[..., Any], make_shards: Shard, predict: Callable[..., Any], tmp_path: Path
) -> None:
    files = _draw_pictures(tmp_path / "d")
    shards = make_shards(files, image_size=16, image_resize="pad")
    plan = PLAN | {"model": "cnn", "batch_size_per_device": 8, "global_batch_size": 8}
    trained = training(1, component="train_tensorflow", shards=shards, **plan)
    assert trained.ok, trained.errors
    names = sorted(map(str, files.rglob("*.*")))[:3]
    answered = predict(trained.folder / "model", *names)
    assert answered["columns"] == ["label", "lower", "upper"]
    assert all(row[1] + row[2] == pytest.approx(1) for row in answered["rows"])


def test_texts_are_classified(
    training: Callable[..., Any],
    component: Callable[..., Any],
    make_shards: Shard,
    predict: Callable[..., Any],
    tmp_path: Path,
) -> None:
    data = _write_reviews(tmp_path / "reviews.jsonl")
    shards = make_shards(data, text="body", tokenizer="bpe", sequence_length=16)
    trained = _curves_agree(training, shards, model="gpt", learning_rate=0.005, epochs=4)
    done = component("evaluate", model=trained.folder / "model", shards=shards, metrics=tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "m" / "metrics.json").read_text())["accuracy"] >= 0.9
    answered = predict(trained.folder / "model", "good 7 fine", "great 3 ", "bad 5 awful 5")
    assert answered["columns"] == ["label", "neg", "pos"]
    assert [row[0] for row in answered["rows"]] == ["pos", "pos", "neg"]
    assert all(row[1] + row[2] == pytest.approx(1) for row in answered["rows"])


def test_language_model_of_byte_pairs(
    training: Callable[..., Any], make_shards: Shard, predict: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(f"document {number} says the same again and again\n" * 20)
    shards = make_shards(folder, tokenizer="bpe", sequence_length=16, vocabulary_size=300)
    vocabulary = ShardReader(shards, "train").manifest.features.tokenizer.vocabulary  # type: ignore[union-attr]
    trained = _curves_agree(training, shards, model="gpt", epochs=1)
    assert trained.losses[min(trained.losses)] == pytest.approx(np.log(vocabulary), abs=0.3)
    answered = predict(trained.folder / "model", "document 1 says the same", "")
    assert answered["columns"] == ["text"]
    assert all(isinstance(row[0], str) for row in answered["rows"])


@pytest.mark.smoke
def test_augmentation_needs_pictures(
    training: Callable[..., Any], built_in_shards: Callable[[str], Path]
) -> None:
    shards = built_in_shards("python-source")
    plan = {"batch_size_per_device": 8, "global_batch_size": 8, "learning_rate": 0.1, "model": "gpt"}
    done = training(1, shards=shards, augmentation="light", **plan)
    assert done.ranks[0].status == 2
    assert "`augmentation` is `light`, and the shards hold rows of shape [129]" in done.ranks[0].stderr
