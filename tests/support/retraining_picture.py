"""Draws the picture of a year on the page about retraining.

``python tests/support/retraining_picture.py compiler/docs/how-to/retraining-year.svg`` runs 52 looks in a
second: the feed of the soak tests, least squares in place of a training, the real comparison and drawing.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from pathlib import Path

import numpy as np
from retrained_feed import BROKEN, FIRST, FLIPPED, HISTORY, QUIET, make_rows

from worldsize.running.show.firings import Firing, draw_firings, draw_key
from wspaired.difference import make_difference
from wspaired.rules import parse_rule

WEEK, WINDOW, ROWS, FLOOR = 7 * 86400.0, 8, 60, 0.5


def fit(rows: np.ndarray, chance: random.Random) -> np.ndarray:
    """The weights of a model, with the luck that a training has."""
    inputs = np.c_[rows[:, 1:3], np.ones(len(rows))]
    weights = np.linalg.lstsq(inputs, rows[:, 3], rcond=None)[0]
    return weights + [chance.gauss(0, 0.02) for _ in weights]


def predict(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The answers of a model."""
    return np.c_[rows[:, 1:3], np.ones(len(rows))] @ weights


def look(
    week: int, feed: dict[int, np.ndarray], champion: np.ndarray | None
) -> tuple[Firing, np.ndarray | None]:
    """One look: train, compare on the newest rows, and promote or not."""
    chance = random.Random(week)
    time = FIRST.timestamp() + week * WEEK
    if week > 0 and week - 1 not in feed:
        return Firing(time, "none", "`feed` has 0 new rows, fewer than `minimum_new_rows: 20`"), champion
    rows = np.concatenate([feed[at] for at in sorted(feed) if at >= week - WINDOW])
    split = int(len(rows) * 0.875)
    model, test = fit(rows[:split], chance), rows[split:]
    errors = [
        (predict(weights, test) - test[:, 3]) ** 2 for weights in (champion, model) if weights is not None
    ]
    values = [math.sqrt(each.mean()) for each in errors]
    firing = Firing(
        time, "promote", "`sales` has no champion yet", run=f"week-{week}", metric="rmse", new=values[-1],
        rows=len(rows), seconds=25 + chance.gauss(0, 2) + len(rows) / 100,
    )  # fmt: skip
    if champion is None:
        return firing, model
    paired = (errors[0] - errors[1]) / (values[0] + values[1])  # by the delta method
    error = float(paired.std(ddof=1) / math.sqrt(len(paired)))
    difference = make_difference(
        float(paired.mean()), error, rows=len(paired), units=len(paired), discordant=len(paired)
    )
    r2 = 1 - errors[-1].mean() / test[:, 3].var()
    is_better = parse_rule("better").holds(difference) and r2 >= FLOOR
    reason = f"rmse is better by {difference.value:.4f}, {difference.value / error:.1f} standard errors"
    reason = reason if r2 >= FLOOR else f"r2 is {r2:.2g}, and the gate requires >= {FLOOR}"
    numbers = {"value": difference.value, "low": difference.low, "high": difference.high}
    kept = Firing(
        time, "promote" if is_better else "keep", reason, run=firing.run, metric="rmse", old=values[0],
        new=values[1], difference=numbers, rows=firing.rows, seconds=firing.seconds,
    )  # fmt: skip
    return kept, model if is_better else champion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    feed = {week: np.array(make_rows("sales", week, ROWS)) for week in range(-HISTORY, 0)}
    firings, champion = [], None
    for week in range(52):
        if week > 0 and week not in QUIET:
            fault = "broken" if week in BROKEN else "flipped" if week in FLIPPED else ""
            feed[week - 1] = np.array(make_rows("sales", week - 1, ROWS, fault=fault))
        firing, champion = look(week, feed, champion)
        firings.append(firing)
        if week in (*BROKEN, *FLIPPED):
            del feed[week - 1]
    picture = draw_firings(firings)
    height = float(re.findall(r'viewBox="0 0 \d+ ([\d.]+)"', picture)[0])
    key = draw_key(sorted({firing.action for firing in firings})).partition(">")[2].removesuffix("</svg>")
    picture = picture.replace(f' {height:g}"', f' {height + 24:g}"', 1).removesuffix("</svg>")
    options.file.write_text(f'{picture}<g transform="translate(0 {height:g})">{key}</g></svg>\n')


if __name__ == "__main__":
    main()
