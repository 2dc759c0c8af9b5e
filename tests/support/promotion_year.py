"""A year of retraining for many seeds at once: what each rule promotes, and what that costs.

A model's quality on the day of its training is 0.80 plus the luck of its training; with drift, every model
loses as much a week. Two models are compared on the same new rows, of which `DISCORDANT` are judged
differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from wspaired.difference import make_difference
from wspaired.rules import parse_rule

Array = np.ndarray[Any, np.dtype[np.float64]]
WEEKS = 52
DISCORDANT = 0.10
BROKEN_LOSS = 0.05


class Setting(Struct, frozen=True):
    """A world to retrain in."""

    rows: int = 1000  # that are compared
    luck: float = 0.01  # standard deviation of the quality between seeds of training
    drift: float = 0.0  # what every model loses a week
    broken: float = 0.0  # share of weeks whose data is broken
    guarded: bool = False  # a second metric, of independent luck, must not get worse by 2 points


class Outcome(Struct, frozen=True):
    """What a rule gives in a year, on average over the seeds."""

    distance: float  # to the best model at hand, in points
    promotions: float
    worse: float  # of the promotions, those that lost more than half a point
    second_lost: float  # worst loss of the second metric below its start, in points


# Whether the newest is promoted, by the scores of all models on today's rows, the difference, and its error.
Rule = Callable[[Array, Array, float], np.ndarray[Any, np.dtype[np.bool_]]]


def of_compare(text: str) -> Rule:
    """A rule of `compare`, whose bound follows from the standard error alone."""
    rule = parse_rule(text)

    def decide(_scores: Array, difference: Array, error: float) -> Any:
        shown = make_difference(0.0, error, rows=1, units=1, discordant=0)
        return difference > rule.bound(shown)

    return decide


RULES: Mapping[str, Rule] = {
    "threshold": lambda scores, _difference, _error: scores[:, -1] >= 0.78,
    "best of all": lambda scores, _difference, _error: scores[:, -1] >= scores[:, :-1].max(1),
    **{
        text: of_compare(text)
        for text in ("better", "significant 0.95", "standard_errors 0", "not_worse 0.02")
    },
}


def simulate(
    rule: Rule, setting: Setting, trained: np.ndarray[Any, np.dtype[np.bool_]], seed: int = 0
) -> Outcome:
    """A year of a rule; ``trained`` says for each seed in which weeks a model was trained."""
    rng = np.random.default_rng(seed)
    seeds, weeks = trained.shape
    quality = 0.80 + setting.luck * rng.standard_normal((seeds, weeks))
    second = 0.80 + setting.luck * rng.standard_normal((seeds, weeks))
    broken = rng.random((seeds, weeks)) < setting.broken
    broken[:, 0] = False
    quality = np.where(trained, quality - BROKEN_LOSS * broken, -1.0)  # what is not trained is never best
    error = float(np.sqrt(DISCORDANT / setting.rows))
    rows, champion = np.arange(seeds), np.zeros(seeds, int)
    distance, promotions, worse = np.zeros(seeds), np.zeros(seeds), np.zeros(seeds)
    lost = np.zeros(seeds)
    for week in range(1, weeks):
        now = quality[:, : week + 1] - setting.drift * (week - np.arange(week + 1))
        scores = now + np.sqrt(0.5) * error * rng.standard_normal(now.shape)
        promoted = rule(scores, scores[:, week] - scores[rows, champion], error) & trained[:, week]
        if setting.guarded:
            change = second[:, week] - second[rows, champion] + error * rng.standard_normal(seeds)
            promoted &= RULES["not_worse 0.02"](scores, change, error)
        promotions += promoted
        worse += promoted & (now[:, week] - now[rows, champion] < -0.005)
        champion = np.where(promoted, week, champion)
        distance += now.max(1) - now[rows, champion]
        lost = np.maximum(lost, second[:, 0] - second[rows, champion])
    return Outcome(distance.mean() / (weeks - 1) * 100, promotions.mean(), worse.mean(), lost.mean() * 100)
