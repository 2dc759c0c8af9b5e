"""A short run of the programs in `tests/fuzz` with every run of the tests, and what longer ones found."""

from __future__ import annotations

import contextlib
import importlib
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from wsshards import manifest
from wsshards.errors import UserError
from wstrain.checkpoint import checkpoint_folder

CASES = {"arrow": 60, "card": 150, "compile": 12, "deepspeed": 200, "manifest": 100, "prepare": 20}


@pytest.fixture(scope="module")
def layers() -> ModuleType:
    return importlib.import_module("tests.fuzz.layers")


@pytest.fixture(scope="module")
def full_disk() -> ModuleType:
    pytest.importorskip("starlette", reason="pip install 'worldsize[serve]'")
    return importlib.import_module("tests.fuzz.full_disk")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("target", CASES)
def test_mutated_files_are_refused_in_a_sentence_or_taken(
    layers: ModuleType, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    targets = layers.Targets(tmp_path)
    for number in range(CASES[target]):
        with contextlib.suppress(*layers.PROMISED[target]):
            getattr(targets, target)(random.Random(f"7/{target}/{number}"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "name", ["adopt", "baseline", "compile", "fix", "init", "report", "requests", "serve"]
)
def test_every_write_may_fail_once(full_disk: ModuleType, name: str) -> None:
    tried, faults = full_disk.try_scenario(name, every=9)
    assert faults == []
    assert tried > 3


def _manifest(**changes: Any) -> str:
    shard = {"path": "train/a.arrow", "rows": 1, "bytes": 1, "sha256": "0"}
    split = {"rows": 1, "shards": [shard]}
    document = {
        "version": 1,
        "task": "classification",
        "source": "x",
        "seed": 1,
        "features": {"name": "x", "dtype": "float32", "shape": [4]},
        "label": None,
        "splits": {"train": split, "validation": split},
    }
    return json.dumps({**document, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        _manifest(seed=float("inf")),
        _manifest(seed="9" * 5_000),
        _manifest(features={"name": "x", "dtype": "float32", "shape": [float("inf")]}),
        _manifest(splits={"train": {"rows": 0, "shards": [{"path": "../x"}]}}),
        _manifest(splits=[[[[]]]]),
    ],
)
def test_a_hostile_manifest_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UserError):
        manifest.manifest_from_json(text)


def test_a_manifest_larger_than_any_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / manifest.MANIFEST_NAME).open("wb") as file:
        file.truncate(manifest.MAX_MANIFEST_BYTES + 1)  # a hole: it takes no room on the disk
    with pytest.raises(UserError, match="more than any manifest"):
        manifest.read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "1e999", '{"sha256": 1, "step": 1e999}'])
def test_a_hostile_card_of_a_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "step-00000001").mkdir()
    (tmp_path / "step-00000001" / checkpoint_folder.CARD).write_text(text)
    with pytest.raises(ValueError, match="is not what was written"):
        checkpoint_folder.read_card(tmp_path / "step-00000001")
