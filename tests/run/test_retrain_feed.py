"""Broken weeks of a small regression: `worldsize retrain` stops before anything is trained, and says why."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from retrained_regression import SPEC, look_in

pytestmark = [pytest.mark.run, pytest.mark.timeout(900)]

FED = (
    SPEC.replace("task: regression", "task: regression, missing: fill")
    .replace("epochs: 8", "epochs: 2")
    .replace(">= 0.5", ">= -100")
    + "  feed: {stop: [schema, empty, nulls, range, labels]}\n"
)
HEADING = "day,a,b,y"
Change = Callable[[dict[str, Any], float], Any]


class Feed:
    """A folder of weeks, and looks at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "feed"
        self.folder.mkdir()
        (folder / "spec.yml").write_text(FED)

    def write(self, week: int, rows: int = 200, *, heading: str = HEADING, **changes: Change) -> None:
        """A week, of which columns may be changed by functions of a row and a random number."""
        chance = random.Random(week)
        lines = []
        for number in range(rows):
            first, second = chance.random(), chance.random()
            row: dict[str, Any] = {"day": round(7 * (week + number / rows), 4), "a": first, "b": second}
            row["y"] = 3 * first - second + chance.gauss(0, 0.1)
            for name, change in changes.items():
                row[name] = change(dict(row), chance.random())
            lines.append(",".join(str(row[name]) for name in heading.split(",")))
        (self.folder / f"week{week}.csv").write_text("\n".join([heading, *lines]) + "\n")

    def look(self, status: int = 0) -> dict[str, Any]:
        return look_in(self.folder.parent, status=status)

    def count_steps(self, name: str) -> int:
        return len(list(self.folder.parent.glob(f".worldsize/runs/*/steps/{name}")))


def test_a_broken_week_stops_before_the_training(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.write(1)
    assert feed.look()["action"] == "promote"
    weeks: list[tuple[dict[str, Any], str]] = [
        (
            {"a": lambda row, luck: row["a"] if luck > 0.38 else ""},
            "`a` has 38 % missing cells in the 200 rows after",
        ),
        (
            {"b": lambda row, _: 1000 * row["b"]},
            "of its values are far outside of the champion's feed, from 0.0",
        ),
        (
            {"y": lambda row, _: -row["y"]},
            "label `y` has drifted in the 200 rows after 13.965: its mean is -0.96",
        ),
        ({"heading": "day,a,y"}, "`feed/week2.csv` has no column `b`"),
        ({"heading": "day,a,b"}, "`feed/week2.csv` has no column `y`"),
    ]
    for changes, sentence in weeks:
        feed.write(2, **changes)
        answer = feed.look(status=1)
        print(answer["reason"])
        assert answer["action"] == "stop"
        assert sentence in answer["reason"]
    (feed.folder / "week2.csv").write_text("")
    print(feed.look(status=1)["reason"])
    (feed.folder / "week2.csv").unlink()
    feed.write(1, 80)
    reason = feed.look(status=1)["reason"]
    print(reason)
    assert "the feed has 80 rows, the champion's feed had 200" in reason
    feed.write(1, heading="day,a,c,y", c=lambda row, _: row["b"])
    reason = feed.look(status=1)["reason"]
    print(reason)
    assert "the feed has no column `b`, which the champion's feed has; column `c` is new" in reason
    feed.write(1, heading="day,a,b")
    print(feed.look(status=1)["reason"])
    assert feed.count_steps("train") == 1
    feed.write(1)
    feed.write(2, b=lambda row, _: row["b"] ** 4)  # drifts within its range: a warning
    assert feed.look()["action"] in ("promote", "keep")
    assert feed.count_steps("train") == 2
    (newest,) = sorted(tmp_path.glob(".worldsize/runs/*/steps/train/outputs/model/feed.json"))[1:]
    document = json.loads(newest.read_text())
    assert [entry["column"] for entry in document["warnings"]] == ["b"]
    assert document["drift"]["b"]["psi"] > 0.2 > document["drift"]["a"]["psi"]
