"""Weeks of a small regression by `worldsize retrain`, with the real trainer, comparison and registry."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from retrained_regression import SPEC, add_week, look_in

pytestmark = [pytest.mark.run, pytest.mark.timeout(600)]


def test_four_weeks(tmp_path: Path) -> None:
    def look() -> dict[str, Any]:
        return look_in(tmp_path)

    (tmp_path / "spec.yml").write_text(SPEC)
    add_week(tmp_path, 1, 300)
    first = look()
    assert (first["action"], first["champion"], first["model"]) == ("promote", None, "sales")
    quiet = look()
    assert (quiet["action"], quiet["champion"]["version"]) == ("none", "1")
    assert quiet["champion"]["metric"] == pytest.approx(first["challenger"]["metric"], rel=1e-4)
    assert quiet["champion"]["trained_until"] == f"{first['challenger']['trained_until']:.6g}"
    add_week(tmp_path, 2, 900)
    second = look()
    assert second["action"] in ("promote", "keep")
    assert second["champion"]["version"] == "1"
    difference = second["difference"]
    assert difference["rows"] > 50
    assert (second["action"] == "promote") is (difference["value"] > 0.84 * difference["standard_error"])
    add_week(tmp_path, 3, 1200, broken=True)
    broken = look()  # the newest rows, which judge both models, are broken too: the floor keeps them out
    assert broken["action"] == "keep"
    assert "r2" in broken["reason"]
    assert look()["champion"]["version"] == ("2" if second["action"] == "promote" else "1")


WINDOWED = (
    SPEC.replace("{time: day, validation: 0.1, test: 0.2}", "{validation: 0.1, test: 0.2}")
    .replace("label: y,", "label: y, features: 'a,b',")
    .replace("retrain:\n", "retrain:\n  data: {sales: {window: 21d, by: sold_on}}\n  start_from: champion\n")
)


def add_days(folder: Path, name: str, first: int, days: int) -> None:
    """A file of the feed with thirty rows for each day since the beginning of the year."""
    chance = random.Random(first)
    lines = []
    for row in range(30 * days):
        a, b, day = chance.random(), chance.random(), date(2026, 1, 1) + timedelta(days=first + row // 30)
        lines.append(f"{day},{a:.4f},{b:.4f},{3 * a - b + chance.gauss(0, 0.1):.4f}\n")
    (folder / "feed").mkdir(exist_ok=True)
    (folder / "feed" / name).write_text("sold_on,a,b,y\n" + "".join(lines))


def test_a_window_of_rows_by_hash_from_the_champion(tmp_path: Path) -> None:
    (tmp_path / "spec.yml").write_text(WINDOWED)
    add_days(tmp_path, "first.csv", 0, 60)
    assert look_in(tmp_path, "--now", "2026-03-02T03:00Z")["action"] == "promote"
    assert read_rows(tmp_path) == [600]  # of 1,800
    assert look_in(tmp_path, "--now", "2026-03-02T09:00Z")["action"] == "none"  # no row has left the window
    add_days(tmp_path, "second.csv", 60, 7)
    second = look_in(tmp_path, "--now", "2026-03-09T03:00Z")
    assert read_rows(tmp_path) == [600, 600]
    assert 90 < second["difference"]["rows"] <= 120  # those that would have tested for the champion too
    first_loss, second_loss = read_first_losses(tmp_path)
    assert second_loss < first_loss / 5
    (tmp_path / "spec.yml").write_text(WINDOWED.replace("by: sold_on", "by: sold"))
    assert look_in(tmp_path, status=1)["reason"] == (
        "spec.yml:21:35: `sales` has no folder `sold=2026-03-02` or the like,"
        " and `first.csv` has no column `sold`"
    )


def read_first_losses(folder: Path) -> list[float]:
    """The loss of the first step of each training, the oldest first."""
    with closing(sqlite3.connect(folder / ".worldsize" / "mlflow.db")) as database:
        query = """
            SELECT value FROM metrics JOIN runs USING (run_uuid)
            WHERE key = 'loss' AND step = 1 AND name = 'train' ORDER BY start_time
        """
        return [value for (value,) in database.execute(query)]


def read_rows(folder: Path) -> list[int]:
    """The rows of all parts of each run's shards, the oldest first."""
    manifests = sorted(folder.glob(".worldsize/runs/*/steps/shard/outputs/shards/manifest.json"))
    parts = [json.loads(path.read_text())["splits"].values() for path in manifests]
    return [sum(part["rows"] for part in run) for run in parts]
