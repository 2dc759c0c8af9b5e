"""Judges the rows of a feed by themselves, and beside the feed that the champion was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wsfeed.distances import (
    chi_square,
    kolmogorov_smirnov,
    population_stability_index,
    proportion_deviate,
)
from wsfeed.feed import Column, Feed
from wsfeed.policy import CHECKS, Policy
from wsshards.errors import UserError, clip_text
from wsshards.terms import BOOLEAN, CATEGORY, NUMBER

BINS = 10  # of equal shares, for PSI
_SURE, _CHANCE = 3.3, 0.001  # standard errors, and a probability: what chance alone hardly ever does
_LEAST_SHARE, _LEAST_ROWS = 0.005, 3  # of values far outside: a few wild ones are not a broken feed
_LEAST_EXPECTED = 10  # rows of a class, below which its absence may be chance
_SHOWN = 5  # findings of a message
_KINDS = {NUMBER: "numbers", BOOLEAN: "true or false", CATEGORY: "categories"}
_DECIDING = ("label", "features", "column_types", "task")  # inputs that choose the columns
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Rows that are judged: all of a feed, or those that are newer than another feed.

    Attributes:
        feed: their statistics.
        samples: sampled values `[k]` of each column and target, without missing ones, in ascending order.
        where: words that tell which rows, or nothing for all.
    """

    feed: Feed
    samples: Mapping[str, Array]
    where: str = ""


class Finding(NamedTuple):
    """What a check has found, in one sentence; `column` is empty where it is of no column."""

    check: str
    column: str
    message: str


class Distance(NamedTuple):
    """How far a column is from the same column of another feed."""

    psi: float
    test: str  # ks or chi_square
    statistic: float
    probability: float

    @property
    def is_sure(self) -> bool:
        """Whether chance alone hardly gives it."""
        return self.probability < _CHANCE


def judge(
    parts: list[Part], reference: Feed | None, policy: Policy, distances: Mapping[str, Distance]
) -> list[Finding]:
    """Return what the checks of a policy find, in the order of `CHECKS`: one finding for each column.

    Args:
        parts: all rows, and before them those that are newer than the reference, if that is known.
        reference: the feed of the champion. Without one only rows that are all equal count: `shard_data`
            itself refuses what else is wrong in any feed, such as one label only.
        policy: which checks count.
        distances: what `measure_drift` returns for all rows and the reference.
    """
    findings: dict[tuple[str, str], Finding] = {}
    feed = parts[-1].feed
    if feed.rows > 1 and feed.copies_are_exact and feed.copies >= 1 - 1 / feed.rows:
        findings["duplicates", ""] = Finding("duplicates", "", f"all {feed.rows:,} rows are equal")
    if reference is not None:
        for part in parts:
            for finding in _judge_beside(part, reference, policy):
                findings.setdefault((finding.check, finding.column), finding)
        said = {finding.column for finding in findings.values()}
        for finding in _judge_drift(parts[-1], reference, policy, distances):
            if finding.column not in said:
                findings[finding.check, finding.column] = finding
    wanted = policy.stop | policy.warn
    kept = [finding for finding in findings.values() if finding.check in wanted]
    return sorted(kept, key=lambda finding: CHECKS.index(finding.check))


def stop(findings: list[Finding], policy: Policy) -> None:
    """End the step if one of the findings is to stop it.

    Raises:
        UserError: it names the findings.
    """
    stopping = [finding for finding in findings if finding.check in policy.stop]
    if not stopping:
        return
    more = len(stopping) - _SHOWN
    said = "; ".join(finding.message for finding in stopping[:_SHOWN]) + (
        f"; and {more} more" if more > 0 else ""
    )
    checks = " and ".join(dict.fromkeys(f"`{finding.check}`" for finding in stopping))
    # In one sentence with the remedy: what retrains shows no more of it.
    raise UserError(
        f"{said}: correct the feed, or take {checks} out of `feed_stop` (`retrain: {{feed: {{stop}}}}`)"
    )


def measure_drift(part: Part, reference: Feed) -> dict[str, Distance]:
    """Return the distance of each column, and each target, that both feeds have."""
    before = {column.name: column for column in (*reference.columns, *reference.labels)}
    distances = {}
    for column in (*part.feed.columns, *part.feed.labels):
        old = before.get(column.name)
        if old is not None and old.kind == column.kind:
            distance = _measure_values(old, column) if old.values else _measure_numbers(old, part)
            if distance is not None:
                distances[column.name] = distance
    return distances


def _measure_numbers(old: Column, part: Part) -> Distance | None:
    values = part.samples.get(old.name)
    if values is None or not len(values) or not old.edges:
        return None
    edges, counts = np.array(old.edges), np.array(old.counts)
    below = np.searchsorted(values, edges, side="right")
    fine = np.diff(below, prepend=0, append=len(values))
    ends = np.unique(np.searchsorted(counts.cumsum(), counts.sum() * np.arange(1, BINS) / BINS))
    coarse = np.unique(np.append(ends, len(edges) - 1))
    now = np.diff(below[coarse], prepend=0)
    now[-1] += fine[-1]  # what is above the last edge is in its bin
    psi = population_stability_index(np.diff(counts.cumsum()[coarse], prepend=0), now)
    return Distance(psi, "ks", *kolmogorov_smirnov(np.append(counts, 0), fine))


def _measure_values(old: Column, column: Column) -> Distance | None:
    if old.others or column.others or not column.values:
        return None
    names = sorted({*old.values, *column.values})
    before, now = (
        np.array([counts.get(name, 0) for name in names]) for counts in (old.values, column.values)
    )
    return Distance(population_stability_index(before, now), "chi_square", *chi_square(before, now))


def _judge_beside(part: Part, reference: Feed, policy: Policy) -> Iterator[Finding]:
    feed = part.feed
    same = all(feed.reading.get(name) == reference.reading.get(name) for name in _DECIDING)
    before = {column.name: column for column in reference.columns}
    if not part.where:
        if feed.rows < policy.threshold("rows") * reference.rows:
            message = f"the feed has {feed.rows:,} rows, the champion's feed had {reference.rows:,}"
            yield Finding("empty", "", message)
        yield from _judge_schema(feed, before) if same else ()
    for column in feed.columns:
        old = before.get(column.name)
        if old is not None and old.kind == column.kind:
            yield from _judge_missing(part, column, reference, old, policy)
            yield from _judge_range(part, column, old, policy)
            yield from _judge_categories(part, column, old, policy)
    if same:
        yield from _judge_labels(part, reference, policy)
    yield from _judge_left_out(feed, reference, policy)
    rise = proportion_deviate(reference.copies, reference.rows, feed.copies, feed.rows)
    if feed.copies - reference.copies >= policy.threshold("duplicates") and rise > _SURE:
        message = f"{_percent(feed.copies)} of the rows{part.where} are copies of others"
        yield Finding("duplicates", "", f"{message}, in the champion's feed {_percent(reference.copies)}")


def _judge_schema(feed: Feed, before: Mapping[str, Column]) -> Iterator[Finding]:
    now = {column.name: column for column in feed.columns}
    for name, old in before.items():
        if name not in now:
            message = f"the feed has no column {_name(old)}, which the champion's feed has"
            yield Finding("schema", name, message)
    for name, column in now.items():
        old = before.get(name, column)
        if name not in before:
            message = f"column {_name(column)} is new: the champion's feed has no such column"
            yield Finding("schema", name, message)
        elif old.kind != column.kind:
            now_kind, old_kind = (_KINDS.get(kind, f"{kind}s") for kind in (column.kind, old.kind))
            message = f"{_name(column)} holds {now_kind}, in the champion's feed {old_kind}"
            yield Finding("schema", name, message)


def _judge_missing(
    part: Part, column: Column, reference: Feed, old: Column, policy: Policy
) -> Iterator[Finding]:
    rows, rows_before = part.feed.rows + part.feed.left_out, reference.rows + reference.left_out
    share, before = column.missing / max(rows, 1), old.missing / max(rows_before, 1)
    rise = proportion_deviate(before, rows_before, share, rows)
    if share - before >= policy.threshold("nulls") and rise > _SURE:
        message = f"{_name(column)} has {_percent(share)} missing cells{part.where}"
        yield Finding("nulls", column.name, f"{message}, the champion's feed had {_percent(before)}")


def _judge_left_out(feed: Feed, reference: Feed, policy: Policy) -> Iterator[Finding]:
    rows, rows_before = feed.rows + feed.left_out, reference.rows + reference.left_out
    share, before = feed.left_out / max(rows, 1), reference.left_out / max(rows_before, 1)
    rise = proportion_deviate(before, rows_before, share, rows)
    if share - before >= policy.threshold("nulls") and rise > _SURE:
        message = f"{_percent(share)} of the rows cannot be used, as they lack a value or cannot be read"
        yield Finding("nulls", "", f"{message}, in the champion's feed {_percent(before)}")


def _judge_range(part: Part, column: Column, old: Column, policy: Policy) -> Iterator[Finding]:
    """Values that lie more than a range beyond the champion's; dates always do so at last."""
    values = part.samples.get(column.name)
    if values is None or not len(values) or column.kind != NUMBER or old.low is None or old.high is None:
        return
    reach = (old.high - old.low) * policy.threshold("range")
    outside = int(((values < old.low - reach) | (values > old.high + reach)).sum())
    if reach > 0 and outside >= max(_LEAST_ROWS, _LEAST_SHARE * len(values)):
        message = (
            f"{_name(column)} is from {column.low:.4g} to {column.high:.4g}{part.where}, and"
            f" {_percent(outside / len(values))} of its values are far outside of the champion's feed, from"
            f" {old.low:.4g} to {old.high:.4g}"
        )
        yield Finding("range", column.name, message)


def _judge_categories(part: Part, column: Column, old: Column, policy: Policy) -> Iterator[Finding]:
    """Values that the champion's feed has not; unknown where that has more than are counted."""
    if not old.values or old.others:
        return
    new = {name: rows for name, rows in column.values.items() if name not in old.values}
    share = sum(new.values()) / max(part.feed.rows, 1)
    if share >= policy.threshold("categories"):
        most = clip_text(max(new, key=lambda name: new[name]))
        message = f"{_percent(share)} of {_name(column)}{part.where} are values such as `{most}`"
        yield Finding("categories", column.name, f"{message}, which the champion's feed has not")


def _judge_labels(part: Part, reference: Feed, policy: Policy) -> Iterator[Finding]:
    before = {label.name: label for label in reference.labels}
    for label in part.feed.labels:
        old = before.get(label.name)
        if old is None or old.kind != label.kind:
            continue
        if label.kind == NUMBER:
            distance = _measure_numbers(old, part)
            if distance is not None and distance.is_sure and distance.psi > policy.threshold("psi"):
                yield Finding(
                    "labels", label.name, f"label {_describe_shift(label, old, distance, part.where)}"
                )
        elif not old.others and not label.others:
            yield from _judge_classes(part, label, reference, old, policy)


def _judge_classes(
    part: Part, label: Column, reference: Feed, old: Column, policy: Policy
) -> Iterator[Finding]:
    rows = max(part.feed.rows, 1)
    for name in sorted({*old.values, *label.values}):
        share, before = label.values.get(name, 0) / rows, old.values.get(name, 0) / max(reference.rows, 1)
        sure = abs(proportion_deviate(before, reference.rows, share, rows)) > _SURE
        class_ = f"class `{clip_text(name)}` of label {_name(label)}"
        if not share and before * rows >= _LEAST_EXPECTED:
            message = f"no row{part.where} has {class_}, in the champion's feed {_percent(before)} had it"
        elif not before:
            message = f"{class_} is new, with {_percent(share)} of the rows{part.where}"
        elif abs(share - before) >= policy.threshold("labels") and sure:
            message = f"{_percent(share)} of the rows{part.where} have {class_}, in the champion's feed"
            message += f" {_percent(before)}"
        else:
            continue
        yield Finding("labels", label.name, message)


def _judge_drift(
    part: Part, reference: Feed, policy: Policy, distances: Mapping[str, Distance]
) -> Iterator[Finding]:
    columns = {column.name: column for column in reference.columns}
    for column in part.feed.columns:
        distance = distances.get(column.name)
        if distance is not None and distance.is_sure and distance.psi > policy.threshold("psi"):
            message = _describe_shift(column, columns[column.name], distance, part.where)
            yield Finding("drift", column.name, message)


def _describe_shift(column: Column, old: Column, distance: Distance, where: str) -> str:
    if column.mean is not None and old.mean is not None:
        shift = f"its mean is {column.mean:.4g}, in the champion's feed {old.mean:.4g}"
    else:
        totals = [max(sum(counts.values()), 1) for counts in (column.values, old.values)]
        names = {*column.values, *old.values}
        now, before = (
            {n: c.get(n, 0) / t for n in names}
            for c, t in zip((column.values, old.values), totals, strict=True)
        )
        most = max(sorted(names), key=lambda name: abs(now[name] - before[name]))
        shift = (
            f"`{clip_text(most)}` is {_percent(now[most])}, in the champion's feed {_percent(before[most])}"
        )
    return f"{_name(column)} has drifted{where}: {shift} (PSI {distance.psi:.2g})"


def _name(column: Column) -> str:
    return f"`{clip_text(column.name)}`"


def _percent(share: float) -> str:
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.2g} %"
