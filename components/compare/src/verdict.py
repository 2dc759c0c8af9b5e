"""The verdict and its reason, as `comparison.json` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measuring import Measured
from question import AUTO, SIZE, Question

from wschampion.champion import Version
from wsmetrics.names import choose_headline, goal
from wsmodels.mlmodel import digest_model
from wspaired.difference import Difference, make_difference
from wspaired.pairs import Pairs
from wspaired.rules import Guard
from wspaired.units import MIN_UNITS
from wsshards.errors import UserError

PROMOTE, KEEP = "promote", "keep"
Json = dict[str, Any]


def judge(
    question: Question, version: Version, data: Mapping[str, Any], measured: Measured, sizes: Sequence[int]
) -> Json:
    """Return the verdict over two models that were measured on the same rows.

    Args:
        question: what is to be decided.
        version: the champion.
        data: what it was trained on.
        measured: the champion and the challenger.
        sizes: of both in bytes.

    Raises:
        UserError: a model's answers do not have a metric that is needed.
    """
    pairs, (old, new) = measured.pairs, measured.metrics
    assert pairs is not None
    metric = _choose_metric(question, measured, pairs)
    difference = pairs.compare(metric, (old[metric], new[metric]))
    is_better, reason = _apply_rule(question, metric, difference)
    guards: list[Json] = []
    for guard in question.guards:
        beside = _measure_guard(guard.metric, measured, pairs, sizes)
        holds = guard.rule.holds(beside)
        if is_better and not holds:
            is_better = False
            reason = f"the guard `{guard.metric}: {guard.rule}` does not hold: {_explain(guard, beside)}"
        shown = {"metric": guard.metric, "rule": str(guard.rule), "holds": holds}
        guards.append({**shown, "difference": asdict(beside)})
    champion = {
        "name": question.name,
        "version": version.version,
        "metric": old[metric],
        "trained_until": data.get("trained_before"),
    }
    content = _describe_challenger(question, metric, new)
    return {
        "verdict": PROMOTE if is_better else KEEP,
        "reason": reason,
        **content,
        "champion": champion,
        "difference": asdict(difference),
        "guards": guards,
        "rows": _describe_rows(question, difference.rows, None),
    }


def decide_alone(
    question: Question, version: Version | None, measured: Measured, reason: str, data: Mapping[str, Any]
) -> Json:
    """Return the verdict without a comparison: the first model, rows that are not new, or `newest`.

    Args:
        question: what is to be decided.
        version: the champion, if there is one.
        measured: the challenger.
        reason: why the two are not compared.
        data: what the champion was trained on, if it is known.
    """
    (metrics,) = measured.metrics
    metric = question.metric if question.metric != AUTO else choose_headline(metrics)[0]
    is_promoted = version is None or question.rule.is_newest
    champion = version and {
        "name": question.name,
        "version": version.version,
        "metric": None,
        "trained_until": data.get("trained_before"),
    }
    return {
        "verdict": PROMOTE if is_promoted else KEEP,
        "reason": f"the rule is `newest`; not compared, as {reason}" if version and is_promoted else reason,
        **_describe_challenger(question, metric, metrics),
        "champion": champion,
        "difference": None,
        "guards": [],
        "rows": _describe_rows(question, 0, reason),
    }


def count_bytes(folder: Path) -> int:
    """Return the size of a model's files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _describe_challenger(question: Question, metric: str, metrics: Mapping[str, float]) -> Json:
    statistic = next((s for s in question.statistics if s.name == metric), None)
    challenger = {
        "metric": metrics.get(metric),
        "trained_until": question.data.get("trained_before"),
        "model": digest_model(question.model),
    }
    direction = statistic.goal if statistic else goal(metric)
    return {"metric": metric, "goal": direction, "rule": str(question.rule), "challenger": challenger}


def _describe_rows(question: Question, compared: int, reason: str | None) -> Json:
    left_out = question.manifest.split(question.split).rows - compared
    return {"split": question.split, "compared": compared, "left_out": left_out, "reason": reason}


def _choose_metric(question: Question, measured: Measured, pairs: Pairs) -> str:
    if question.metric != AUTO:
        _expect_metric(question.metric, measured, pairs)
        return question.metric
    shared = measured.metrics[0].keys() & set(pairs.names)
    return next(name for name in choose_headline(measured.metrics[1]) if name in shared)


def _expect_metric(name: str, measured: Measured, pairs: Pairs) -> None:
    titles = ("the champion", "the new model")
    lacking = [title for title, metrics in zip(titles, measured.metrics, strict=True) if name not in metrics]
    if lacking or name not in pairs.names:
        who = lacking[0] if lacking else "one of the models"
        raise UserError(
            f"the answers of {who} have no `{name}`",
            "compare by another metric: classes alone have no probabilities, and a class needs rows",
        )


def _measure_guard(name: str, measured: Measured, pairs: Pairs, sizes: Sequence[int]) -> Difference:
    if name == SIZE:
        return make_difference(float(sizes[0] - sizes[1]), 0.0, rows=0, units=0, discordant=0)
    _expect_metric(name, measured, pairs)
    return pairs.compare(name, (measured.metrics[0][name], measured.metrics[1][name]))


def _apply_rule(question: Question, metric: str, difference: Difference) -> tuple[bool, str]:
    """Return whether the challenger wins, apart from guards, and why."""
    rule, shown = question.rule, _describe(metric, difference)
    if rule.is_newest:
        return True, f"the rule is `newest`; {shown}"
    if difference.is_tie:
        return False, f"both models have the same {metric} on {difference.rows:,} rows: the champion stays"
    if difference.units < MIN_UNITS:
        return False, f"{difference.units} groups of rows are too few to tell: {shown}"
    return rule.holds(difference), _explain(Guard(metric, rule), difference)


def _explain(guard: Guard, difference: Difference) -> str:
    """Return the difference and what its rule asks for."""
    bound = f"`{guard.rule}` asks for more than {guard.rule.bound(difference):.4g}"
    return f"{_describe(guard.metric, difference)}; {bound}"


def _describe(metric: str, difference: Difference) -> str:
    """Return the difference as a sentence: `accuracy is better by 0.012 ± 0.008 on 1,200 rows`."""
    if metric == SIZE:
        return (
            f"the files have {abs(difference.value):,.0f} bytes {'less' if difference.value >= 0 else 'more'}"
        )
    way = "better" if difference.value >= 0 else "worse"
    margin = difference.high - difference.value
    return f"{metric} is {way} by {abs(difference.value):.4g} ± {margin:.2g} on {difference.rows:,} rows"
