"""Which runs `worldsize runs` lists, in which order, with which metrics."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import click

from worldsize.base.suggest import did_you_mean
from worldsize.cli import common

if TYPE_CHECKING:
    from worldsize.running.record.history import RunRecord

_CONDITION = re.compile(r"([^<>=!]{1,200}?)\s*(>=|<=|==|!=|=|>|<)\s*([-+\w.]{1,40})")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
STATES = ("queued", "running", "succeeded", "failed", "interrupted", "died", "canceled")
_AGE = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_FIELDS = ("started", "seconds", "state", "pipeline")  # that runs can be sorted by, beside metrics


@dataclass(frozen=True, slots=True)
class Condition:
    """A bound for a metric."""

    metric: str
    operator: str
    bound: float

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Whether a run has the metric, within the bound."""
        value = metrics.get(self.metric)
        return value is not None and _OPERATORS[self.operator](value, self.bound)


@dataclass(frozen=True, slots=True)
class Filter:
    """What the options ask for."""

    states: frozenset[str] = frozenset()
    pipeline: str = ""
    since: datetime | None = None
    conditions: Sequence[Condition] = ()
    metrics: Sequence[str] = ()
    sort: str = ""
    _known: set[str] = field(default_factory=set)  # metrics of any run

    @property
    def columns(self) -> list[str]:
        """The metrics to show: those named, and those of conditions and of the order."""
        sorted_by = [self.sort] if self.sort and self.sort not in _FIELDS else []
        return list(dict.fromkeys([*self.metrics, *(each.metric for each in self.conditions), *sorted_by]))

    @property
    def asks(self) -> bool:
        """Whether anything is asked for, so that every run has to be read."""
        return bool(self.states or self.pipeline or self.since or self.columns or self.sort)

    def choose(
        self, runs: Iterable[RunRecord], read_metrics: Callable[[RunRecord], Mapping[str, float]]
    ) -> list[tuple[RunRecord, dict[str, float]]]:
        """The runs that match with the metrics that are asked for, in order; exits for an unknown metric.

        Args:
            runs: All of them.
            read_metrics: Returns the metrics of one, by name and by ``step.name``; called only if some are
                asked for.
        """
        chosen = []
        for run in runs:
            if not self._matches(run):
                continue
            metrics = read_metrics(run) if self.columns else {}
            self._known.update(metrics)
            if all(condition.holds(metrics) for condition in self.conditions):
                chosen.append((run, {name: metrics[name] for name in self.columns if name in metrics}))
        self._refuse_unknown()
        return self._sort(chosen)

    def _matches(self, run: RunRecord) -> bool:
        if self.states and run.state not in self.states:
            return False
        if self.pipeline.lower() not in f"{run.label}\n{run.pipeline}".lower():
            return False
        return self.since is None or (run.started is not None and run.started >= self.since)

    def _refuse_unknown(self) -> None:
        for name in self.columns:
            if self._known and name not in self._known:
                names = [each for each in self._known if "." not in each]
                common.refuse(f"no run has a metric `{name}`", did_you_mean(name, sorted(names)))

    def _sort(
        self, chosen: list[tuple[RunRecord, dict[str, float]]]
    ) -> list[tuple[RunRecord, dict[str, float]]]:
        if not self.sort:
            return chosen
        if self.sort in _FIELDS:
            return sorted(chosen, key=lambda each: _field(each[0], self.sort))
        missing = [each for each in chosen if self.sort not in each[1]]
        return missing + sorted(
            (each for each in chosen if self.sort in each[1]), key=lambda each: each[1][self.sort]
        )


def _field(run: RunRecord, name: str) -> Any:
    value = getattr(run, name)
    return value if value is not None else datetime.min.replace(tzinfo=timezone.utc)


def parse_conditions(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> list[Condition]:
    """Parse ``--where 'accuracy > 0.9'``."""
    conditions = []
    for text in texts:
        matched = _CONDITION.fullmatch(text.strip())
        try:
            bound = float(matched[3]) if matched else None
        except ValueError:
            bound = None
        if matched is None or bound is None:
            raise click.BadParameter(f"`{text}` is not a condition such as `accuracy>0.9`")
        conditions.append(Condition(matched[1].strip(), matched[2], bound))
    return conditions


def parse_since(_ctx: click.Context, _param: click.Parameter, text: str | None) -> datetime | None:
    """Parse ``--since 2d`` or ``--since 2026-01-02``, a date here."""
    if text is None:
        return None
    if matched := _AGE.fullmatch(text.strip().lower()):
        age = timedelta(seconds=int(matched[1]) * _UNITS[matched[2]])
        now = datetime.now(timezone.utc)
        return now - age if age < timedelta(days=36500) else now - timedelta(days=36500)
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"`{text}` is neither an age such as `2d` nor a date such as `2026-01-02`"
        ) from None


def add_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of ``worldsize runs`` that filter and sort; the command gets them as ``wanted``."""

    @functools.wraps(function)
    def call(*, states: tuple[str, ...], **others: Any) -> Any:
        given = {name: others.pop(name) for name in ("pipeline", "since", "conditions", "metrics", "sort")}
        return function(wanted=Filter(states=frozenset(states), **given), **others)

    decorated: Callable[..., Any] = call
    for option in (
        click.option(
            "--sort", default="", metavar="NAME", help="Sort by a metric, started, seconds or state."
        ),
        click.option(
            "--since",
            callback=parse_since,
            metavar="WHEN",
            help="Only runs started since: `2d`, `2026-01-02`.",
        ),
        click.option(
            "--where",
            "conditions",
            multiple=True,
            callback=parse_conditions,
            metavar="CONDITION",
            help="Only runs with such a metric: `accuracy>0.9`; repeatable.",
        ),
        click.option(
            "--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric; repeatable."
        ),
        click.option(
            "--pipeline", default="", metavar="TEXT", help="Only runs whose pipeline contains this."
        ),
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice(STATES),
            metavar="STATE",
            help="Only runs in this state; repeatable.",
        ),
    ):
        decorated = option(decorated)
    return decorated
