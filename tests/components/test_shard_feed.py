"""What `shard_data` counts of the rows that it reads, and how it judges them beside another feed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wsshards.manifest import FEED_NAME, read_manifest
from wsshards.verify import hash_file

pytestmark = [pytest.mark.run, pytest.mark.timeout(120)]
ROWS = 3000
Run = Callable[..., Any]


def make_table(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "price": np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(size=rows).round(4)),
            "colour": rng.choice(["red", "green", "blue"], rows, p=[0.7, 0.2, 0.1]),
            "member": rng.choice(["true", "false"], rows),
            "sold": pd.date_range("2026-01-01", periods=rows, freq="h").strftime("%Y-%m-%d %H:%M"),
            "bought": rng.choice(["yes", "no"], rows, p=[0.2, 0.8]),
        }
    )


def run_shard(shard: Run, table: pd.DataFrame, out: Path, *, status: int = 0, **values: Any) -> Any:
    """The run's statistics, or where it fails its messages."""
    out.mkdir(parents=True)
    table.to_csv(out / "data.csv", index=False)
    done = shard(
        data=out / "data.csv",
        shards=out / "shards",
        **{"label": "bought", "missing": "fill", **values},
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else json.loads((out / "shards" / FEED_NAME).read_text())


def test_the_statistics_are_those_of_pandas(shard: Run, tmp_path: Path) -> None:
    table = make_table()
    feed = run_shard(shard, table, tmp_path / "out")
    assert read_manifest(tmp_path / "out" / "shards").feed == hash_file(
        tmp_path / "out" / "shards" / FEED_NAME
    )
    price, colour, member, sold = feed["columns"]
    described = table["price"].astype(np.float32).astype(float).describe()
    assert price["missing"] == table["price"].isna().sum()
    assert (price["low"], price["high"]) == (described["min"], described["max"])
    assert price["mean"] == pytest.approx(described["mean"])
    assert price["deviation"] == pytest.approx(table["price"].std(ddof=0), rel=1e-5)
    assert colour["values"] == table["colour"].value_counts().to_dict()
    assert [member["edges"], sum(member["counts"])] == [[0.0, 1.0], ROWS]
    assert (sold["kind"], sold["high"] - sold["low"]) == ("date", (ROWS - 1) // 24)
    (label,) = feed["labels"]
    assert label["values"] == table["bought"].value_counts().to_dict()
    assert (feed["rows"], feed["sampled"], feed["rank_error"], feed["copies"]) == (ROWS, ROWS, 0, 0)
    assert (feed["warnings"], feed["drift"]) == ([], {})


def test_rows_that_are_left_out_count(shard: Run, tmp_path: Path) -> None:
    table = make_table()
    table.loc[:99, "bought"] = None
    feed = run_shard(shard, table, tmp_path / "out", missing="drop")
    assert feed["left_out"] == (table["price"].isna() | table["bought"].isna()).sum()
    assert feed["columns"][0]["missing"] == table["price"].isna().sum()


def test_targets_pictures_and_texts(shard: Run, tmp_path: Path) -> None:
    table = make_table().drop(columns=["bought", "price"]).assign(y=np.arange(ROWS) % 100 / 10)
    feed = run_shard(shard, table, tmp_path / "numbers", label="y")
    (label,) = feed["labels"]
    assert (label["name"], label["low"], label["high"], len(label["edges"])) == ("y", 0, 9.9, 100)
    assert label["mean"] == pytest.approx(4.95)
    assert shard(source="builtin:digits", shards=tmp_path / "digits").returncode == 0
    digits = json.loads((tmp_path / "digits" / FEED_NAME).read_text())
    assert [column["name"] for column in digits["columns"]] == ["mean of a row"]
    assert digits["labels"][0]["values"]["3"] == 183
    tags = pd.DataFrame({"a": range(200), "tags": ["red;blue" if row % 4 else "red" for row in range(200)]})
    feed = run_shard(shard, tags, tmp_path / "tags", label="tags", task="multi_label")
    assert feed["labels"][0]["values"] == {"red": 200, "blue": 150}


def test_copies_are_counted_whatever_divides_the_rows(shard: Run, tmp_path: Path) -> None:
    table = make_table(rows=500)
    twice = pd.concat([table, table[:100]])
    for name, values in (("hash", {}), ("time", {"split_time": "sold"}), ("group", {"split_by": "colour"})):
        feed = run_shard(shard, twice, tmp_path / name, validation_fraction=0.3, **values)
        if name == "hash":
            assert feed["copies"] == pytest.approx(100 / 600)
        assert 0.166 < feed["copies"] < 1


def test_newer_rows_are_judged_beside_the_champion(shard: Run, tmp_path: Path) -> None:
    divided = {"split_time": "sold", "test_fraction": 0.2}
    old = make_table()
    run_shard(shard, old, tmp_path / "old", **divided)
    divided["feed_reference"] = str(tmp_path / "old" / "shards" / FEED_NAME)
    week = make_table(1, rows=168)
    week["sold"] = pd.date_range("2026-05-07", periods=168, freq="h").strftime("%Y-%m-%d %H:%M")
    good = run_shard(
        shard, pd.concat([old, week]), tmp_path / "good", feed_stop="nulls, range, labels", **divided
    )
    assert good["warnings"] == []
    assert set(good["drift"]) == {"price", "colour", "member", "bought"}
    week.loc[:80, "price"] = np.nan
    both = pd.concat([old, week])
    messages = run_shard(shard, both, tmp_path / "bad", feed_stop="nulls", status=2, **divided)
    assert "error: `price` has 5" in messages
    assert " % missing cells in the 168 rows after 2026-05-05" in messages
    assert "in the champion's feed" in messages or "the champion's feed had 1" in messages
    assert not list((tmp_path / "bad").rglob("*.arrow"))
    assert not (tmp_path / "bad" / "shards" / "manifest.json").exists()
    warned = run_shard(shard, both, tmp_path / "warned", **divided)
    assert [finding["check"] for finding in warned["warnings"]] == ["nulls", "duplicates"]
    messages = run_shard(shard, both, tmp_path / "wrong", feed_stop="nuls", status=2)
    assert "error: `feed_stop` has `nuls`, which is not a check" in messages
    messages = run_shard(shard, both, tmp_path / "gone", feed_reference=str(tmp_path / "gone.json"), status=2)
    assert "cannot read" in messages


def test_a_first_feed_is_judged_by_itself(shard: Run, tmp_path: Path) -> None:
    (tmp_path / "same.txt").write_text("a" * 1290)
    done = shard(data=tmp_path / "same.txt", shards=tmp_path / "same", feed_stop="duplicates")
    assert done.returncode == 2
    assert "error: all 10 rows are equal: correct the feed, or take `duplicates` out" in done.stderr
    for label in ("lable", "price"):  # none, and one that lacks values in too many rows to be one
        messages = run_shard(shard, make_table(), tmp_path / label, label=label, missing="refuse", status=2)
        assert len(messages.splitlines()) == 2  # the error, and its remedy
        assert f"`{label}`" in messages
