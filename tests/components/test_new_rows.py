"""Rows that a hash divides: which of them are new to a model of an earlier feed, over real shards."""

from __future__ import annotations

import csv
import random
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wsshards import manifest as contents
from wsshards.provenance import describe_data

pytestmark = [pytest.mark.run, pytest.mark.smoke, pytest.mark.timeout(300)]

Run = Callable[..., Any]
SOURCES = Path(__file__).parents[2] / "components/compare/src"
find_new_rows = runpy.run_path(str(SOURCES / "new_rows.py"))["find_new_rows"]
TABLE = {"label": "kind", "features": "id,city,seen"}
PRICES = {"label": "price", "features": "id,city", "split_by": "owner"}
TEXTS = {"text": "note", "label": "kind"}


def _write_table(path: Path, ids: list[int]) -> None:
    """Write a row for each number, which follows from the number alone."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "city", "seen", "owner", "note", "price", "kind"])
        for number in ids:
            draw = random.Random(number)
            city, owner = draw.choice(["Oslo", "Rome", "Kyiv"]), draw.randrange(60)
            kind = draw.choices(["new", "old", "odd"], [60, 37, 3])[0]
            seen, note = f"2026-0{draw.randint(1, 9)}-11", f"note {number} of {owner}"
            writer.writerow([number, city, seen, owner, note, number / 3, kind])


def _write_pictures(folder: Path, ids: list[int]) -> None:
    from PIL import Image

    for number in ids:
        place = folder / ("cat" if number % 3 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        Image.frombytes("L", (8, 8), random.Random(number).randbytes(64)).save(place / f"{number}.png")


def _read(folder: Path, split: str) -> tuple[Any, list[Any]]:
    """The reader of a split, and what tells its rows apart: a number of a table, else all of a row."""
    import numpy as np

    from wsshards.reader import ShardReader

    reader = ShardReader(folder, split)
    rows, _ = reader.gather(np.arange(len(reader)))
    table = bool(reader.manifest.features.columns)
    return reader, [float(row[0]) if table else row.tobytes() for row in rows]


@pytest.mark.parametrize("kind", ["classes", "groups", "texts", "pictures", "files"])
def test_no_compared_row_was_in_an_earlier_training(shard: Run, tmp_path: Path, kind: str) -> None:
    write = _write_pictures if kind in ("pictures", "files") else _write_table
    values: dict[str, Any] = {
        "classes": TABLE,
        "groups": PRICES,
        "texts": TEXTS,
        "pictures": {},
        "files": {"image_storage": "jpeg"},
    }[kind]
    draw, old = random.Random(7), list(range(500))
    feeds = {
        "champion": old,
        "grown": [*old, *range(500, 900)],
        "reordered": draw.sample(old, 500),
        "subset": draw.sample(old, 250),
        "moved": [*range(250, 700)],
    }
    for name, ids in feeds.items():
        write(tmp_path / f"{name}.csv", ids)
        data, out = tmp_path / f"{name}.csv", tmp_path / name
        done = shard(data=data, shards=out, test_fraction=0.3, validation_fraction=0.2, **values)
        assert done.returncode == 0, done.stderr
    champion = describe_data(contents.read_manifest(tmp_path / "champion"))
    learned = {row for split in ("train", "validation") for row in _read(tmp_path / "champion", split)[1]}
    for name in feeds.keys() - {"champion"}:
        reader, rows = _read(tmp_path / name, "test")
        new = find_new_rows(champion, reader)
        assert new.seen is None, (name, new.seen)
        chosen = [True] * len(rows) if new.chosen is None else new.chosen.tolist()
        compared = {row for row, is_new in zip(rows, chosen, strict=True) if is_new}
        assert not compared & learned, name
        assert len(compared) >= 0.75 * len(rows), name


def test_rows_of_another_rule_are_not_known_to_be_new(shard: Run, tmp_path: Path) -> None:
    _write_table(tmp_path / "old.csv", list(range(300)))
    _write_table(tmp_path / "new.csv", list(range(400)))
    held_out = {"test_fraction": 0.3, **TABLE}
    changes: dict[str, dict[str, Any]] = {
        "seed": {"seed": 1},
        "features": {"features": "id,city"},
        "kinds": {"column_types": "id=category"},
    }
    for name, change in {"plain": {}, **changes}.items():
        done = shard(data=tmp_path / "old.csv", shards=tmp_path / name, **(held_out | change))
        assert done.returncode == 0, done.stderr
    assert shard(data=tmp_path / "new.csv", shards=tmp_path / "new", **held_out).returncode == 0
    reader, _ = _read(tmp_path / "new", "test")
    champion = describe_data(contents.read_manifest(tmp_path / "plain"))
    assert find_new_rows(champion, reader).seen is None
    for name in changes:
        other = describe_data(contents.read_manifest(tmp_path / name))
        assert find_new_rows(other, reader).seen == (
            "its rows were divided by another seed, from other columns or in another format"
        )
    unknown = {key: value for key, value in champion.items() if key not in ("rule", "test_below")}
    assert "nothing tells which rows are newer" in find_new_rows(unknown, reader).seen
    untested = champion | {"test_below": {}}  # of no class, so no row of its classes is known to have tested
    assert not find_new_rows(untested, reader).chosen.any()


def test_windows_of_text_are_never_known_to_be_new(shard: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(2000)))
    done = shard(data=tmp_path / "a.txt", shards=tmp_path / "s", test_fraction=0.2, sequence_length=16)
    assert done.returncode == 0, done.stderr
    assert "rule" not in describe_data(contents.read_manifest(tmp_path / "s"))
