"""Runs one or two models over the held-out rows, once, and keeps sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wsmodels.predict import Predictor, read_batches
from wsmodels.scores import ClassifierScores, Scores, make_scores
from wspaired.pairs import Pairs, count_sums
from wspaired.statistics import RankStatistic, Rows, Statistic, Subject, can_measure, holds_logits
from wspaired.units import assign_units
from wsshards.errors import UserError
from wsshards.reader import ShardReader

Array = npt.NDArray[Any]
NEW = "the new model"  # what messages call the challenger


@dataclass(frozen=True)
class Contestant:
    """A model to measure, and how messages call it."""

    title: str
    predictor: Predictor


@dataclass(frozen=True)
class Measured:
    """The metrics of each model as `evaluate` has them, and of two models the sums of both."""

    metrics: list[dict[str, float]]
    pairs: Pairs | None


@dataclass(frozen=True)
class HeldOut:
    """The rows to measure on, what they predict, and the statistics to keep of two models."""

    reader: ShardReader
    subject: Subject
    statistics: Sequence[Statistic | RankStatistic]
    batch_size: int
    chosen: npt.NDArray[np.bool_] | None = None  # whether each row is measured on; all are by default


def measure(contestants: Sequence[Contestant], held_out: HeldOut) -> Measured:
    """Return the metrics of one model, or of the champion and the challenger.

    Raises:
        UserError: a model fails or its answers do not fit, with its title.
    """
    logits = [False] * len(contestants)
    while True:
        measured = _stream(contestants, held_out, logits)
        if measured is not None:
            return measured


def _stream(contestants: Sequence[Contestant], held_out: HeldOut, logits: list[bool]) -> Measured | None:
    """Run the models over all rows; returns None if late rows show that outputs are logits."""
    reader, statistics, chosen = held_out.reader, held_out.statistics, held_out.chosen
    rows = len(reader) if chosen is None else int(chosen.sum())
    scores = [make_scores(reader.manifest, rows) for _ in contestants]
    groups = reader.groups()
    groups = groups if groups is None or chosen is None else groups[chosen]
    units, count = assign_units(rows, groups, count_sums(statistics))
    pairs, place = None, 0
    for inputs, targets in read_batches(reader, held_out.batch_size, chosen):
        answered = []
        for number, (contestant, score) in enumerate(zip(contestants, scores, strict=True)):
            row = _answer(contestant, score, inputs, targets)
            if row.outputs is not None and not logits[number]:
                logits[number] = holds_logits(held_out.subject, row.outputs, targets)
                if logits[number] and place:
                    return None
            answered.append(Rows(targets, row.outputs, row.classes, logits[number], row.threshold))
        if len(answered) == 2:
            if pairs is None:
                measurable = [s for s in statistics if all(can_measure(s, row) for row in answered)]
                pairs = Pairs(measurable, count, rows, are_rows=groups is None)
            pairs.add(answered[0], answered[1], units[place : place + len(targets)])
        place += len(targets)
    return Measured([summary | details for summary, details in (score.metrics() for score in scores)], pairs)


def _answer(contestant: Contestant, score: Scores, inputs: Array, targets: Array) -> Rows:
    threshold = contestant.predictor.threshold
    if isinstance(score, ClassifierScores):
        score.threshold = threshold
    with name_errors(contestant.title):
        answers = score.add(contestant.predictor.predict(inputs), targets)
    return Rows(targets, answers.outputs, answers.classes, threshold=threshold)


@contextmanager
def name_errors(title: str) -> Iterator[None]:
    """Give errors the title of the model that they are about."""
    try:
        yield
    except UserError as error:
        rest = error.message.removeprefix("the model ")
        joint = ": " if rest == error.message else " "
        raise UserError(f"{title}{joint}{rest}", error.help) from error
