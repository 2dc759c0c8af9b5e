"""`worldsize runs`: lists the runs of a folder, the newest last."""

from __future__ import annotations

import functools
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from msgspec import Struct

from worldsize.base.suggest import did_you_mean
from worldsize.base.wording import format_duration
from worldsize.cli import common, run_folders, speed_view, workspace_options
from worldsize.cli.workspace_options import WorkspaceChoice
from worldsize.remote import jobs
from worldsize.reporting.curves import read_run_metrics
from worldsize.running.model.folder import show_path
from worldsize.running.record.details import LocalDetails
from worldsize.running.record.history import list_runs, load_runs

if TYPE_CHECKING:
    from worldsize.planning.estimates.calibration import Speed
    from worldsize.remote.rest import Rest
    from worldsize.running.record.history import RunRecord

EPILOG = """\b
Examples:
  worldsize runs                 the last twenty
  worldsize runs --all --json    every one, for a program
  worldsize runs --where 'accuracy>0.9' --sort accuracy    the best last
  worldsize runs --state failed --since 2d --pipeline digits
  worldsize runs --azure         the jobs of a workspace in Azure, with the same filters

\b
state:
  running      its processes are alive
  died         it stopped without recording its end: continue it with `worldsize resume`
  succeeded, failed, interrupted
  queued, running, succeeded, failed, canceled    of a job in Azure
"""


_CONDITION = re.compile(r"([^<>=!]{1,200}?)\s*(>=|<=|==|!=|=|>|<)\s*([-+\w.]{1,40})")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "=": operator.eq,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
STATES = ("queued", "running", "succeeded", "failed", "interrupted", "died", "canceled")
_CENTURY = 36500 * 86400  # seconds, before which nothing has started
_FIELDS = ("started", "seconds", "state", "pipeline")  # that runs can be sorted by, beside metrics


class Condition(NamedTuple):
    """A bound for a metric."""

    metric: str
    operator: str
    bound: float

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Whether a run has the metric, within the bound."""
        value = metrics.get(self.metric)
        return value is not None and _OPERATORS[self.operator](value, self.bound)


class Filter(Struct, frozen=True):
    """What the options ask for."""

    states: Sequence[str]
    pipeline: str
    since: datetime | None
    conditions: Sequence[Condition]
    metrics: Sequence[str]
    sort: str

    @property
    def columns(self) -> list[str]:
        """The metrics to show: those named, and those of conditions and of the order."""
        sorted_by = [self.sort] if self.sort and self.sort not in _FIELDS else []
        return list(
            dict.fromkeys([*self.metrics, *(condition.metric for condition in self.conditions), *sorted_by])
        )

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
        logged = set[str]()  # metrics of any run
        for run in filter(self._matches, runs):
            metrics = read_metrics(run) if self.columns else {}
            logged.update(metrics)
            if all(condition.holds(metrics) for condition in self.conditions):
                chosen.append((run, {name: metrics[name] for name in self.columns if name in metrics}))
        unknown = next((name for name in self.columns if logged and name not in logged), None)
        if unknown is not None:
            names = sorted(name for name in logged if "." not in name)
            common.refuse(f"no run has a metric `{unknown}`", did_you_mean(unknown, names))
        return self._sort(chosen)

    def _matches(self, run: RunRecord) -> bool:
        if self.states and run.state not in self.states:
            return False
        if self.pipeline.lower() not in f"{run.label}\n{run.pipeline}".lower():
            return False
        return self.since is None or (run.started is not None and run.started >= self.since)

    def _sort(
        self, chosen: list[tuple[RunRecord, dict[str, float]]]
    ) -> list[tuple[RunRecord, dict[str, float]]]:
        if not self.sort:
            return chosen
        if self.sort in _FIELDS:
            return sorted(chosen, key=lambda listed: _field(listed[0], self.sort))
        return sorted(chosen, key=lambda listed: listed[1].get(self.sort, -math.inf))


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
    if (seconds := common.parse_age(text)) is not None:
        return datetime.now(timezone.utc) - timedelta(seconds=min(seconds, _CENTURY))
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"`{text}` is neither an age such as `2d` nor a date such as `2026-01-02`"
        ) from None


_OPTIONS = (
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice(STATES),
        metavar="STATE",
        help="Only runs in this state; repeatable.",
    ),
    click.option("--pipeline", default="", metavar="TEXT", help="Only runs whose pipeline contains this."),
    click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric; repeatable."),
    click.option(
        "--where",
        "conditions",
        multiple=True,
        callback=parse_conditions,
        metavar="CONDITION",
        help="Only runs with such a metric: `accuracy>0.9`; repeatable.",
    ),
    click.option(
        "--since", callback=parse_since, metavar="WHEN", help="Only runs started since: `2d`, `2026-01-02`."
    ),
    click.option("--sort", default="", metavar="NAME", help="Sort by a metric, started, seconds or state."),
)


def add_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that filter and sort; the command gets them as ``wanted``."""

    @functools.wraps(function)
    def call(**options: Any) -> Any:
        chosen = {name: options.pop(name) for name in Filter.__struct_fields__}
        return function(wanted=Filter(**chosen), **options)

    return common.add_options(call, *_OPTIONS)


class _Listed(NamedTuple):
    """A run of the list; ``metrics`` are known where the list was filtered by them."""

    run: RunRecord
    links: Mapping[str, str]
    speeds: Mapping[str, Speed]
    metrics: Mapping[str, float]


@click.command(epilog=EPILOG)
@run_folders.runs_dir
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Only the newest runs.",
)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@common.json_option
@add_filter
@workspace_options.of_azure
def command(
    home: Path,
    azure: WorkspaceChoice | None,
    last: int,
    *,
    everything: bool,
    as_json: bool,
    wanted: Filter,
) -> None:
    """List runs: state, steps done, start and duration."""
    newest = slice(None if everything else -last, None)
    if azure is not None:
        with azure.connect() as rest:
            _show(_list_jobs(rest, newest, wanted), wanted.columns, as_json=as_json)
    else:
        _show(_list_folders(home, newest, wanted), wanted.columns, as_json=as_json)


class _Listing(NamedTuple):
    """The runs to show, of how many, and what to say if there are none."""

    runs: Sequence[_Listed]
    total: int
    noun: str
    nothing: str


def _list_folders(home: Path, newest: slice, wanted: Filter) -> _Listing:
    folders = list_runs(home)
    nothing = "no run matches" if folders else f"no run in `{home}` yet"
    if wanted.asks:
        chosen = wanted.choose(load_runs(folders), read_run_metrics)
    else:
        chosen = [(run, {}) for run in load_runs(folders[newest])]
    runs = [
        _Listed(run, details.links(), details.speeds(), metrics)
        for run, metrics in chosen[newest]
        for details in (LocalDetails(run),)
    ]
    return _Listing(runs, len(chosen) if wanted.asks else len(folders), "runs", nothing)


def _list_jobs(rest: Rest, newest: slice, wanted: Filter) -> _Listing:
    """The jobs of a workspace; a filter reads all of them, and their metrics only if it asks for any."""
    count = None if wanted.asks or newest.start is None else -newest.start
    by_name = {job.name: job for job in jobs.list_jobs(rest, count)}
    records = (job.record for job in by_name.values())
    chosen = wanted.choose(records, lambda run: by_name[run.id].run_metrics())
    runs = [
        _Listed(run, job.links(), job.predicted_speeds(), metrics)
        for run, metrics in chosen[newest]
        for job in (by_name[run.id],)
    ]
    nothing = "no job matches" if by_name else f"no job in {rest.names.shown} yet"
    return _Listing(runs, len(chosen), "jobs", nothing)


def _show(listing: _Listing, columns: Sequence[str], *, as_json: bool) -> None:
    """Print the runs; ``columns`` are the metrics to show."""
    compared = [speed_view.compare_speeds(run.speeds) for run in listing.runs]
    if as_json:
        documents = [_document(run, columns) for run in listing.runs]
        for document, speeds in zip(documents, compared, strict=True):
            document["speeds"] = {name: speed_view.describe_speed(speed) for name, speed in speeds.items()}
        click.echo(json.dumps(documents, indent=2))
        return
    if not listing.runs:
        common.say(listing.nothing)
        return
    if len(listing.runs) < listing.total:
        common.say(f"the last {len(listing.runs)} of {listing.total} {listing.noun}")
    headings = ("run", "state", "steps", "started", "took", *columns, "pipeline")
    titles, rows = speed_view.add_columns(headings, [_row(run, columns) for run in listing.runs], compared)
    right = frozenset({2, 4, *range(5, 5 + len(columns))})
    common.say_table(titles, rows, right=right)


def _row(listed: _Listed, columns: Sequence[str]) -> tuple[str, ...]:
    run, metrics = listed.run, listed.metrics
    took = format_duration(run.seconds) if run.started is not None else ""
    steps = f"{run.done}/{len(run.steps)}"
    where = show_path(run.pipeline) if run.label == run.pipeline else " ".join(run.label.split())
    cells = (f"{metrics[name]:.6g}" if name in metrics else "" for name in columns)
    return run.id, run.state, steps, common.format_time(run.started), took, *cells, where


def _document(listed: _Listed, columns: Sequence[str]) -> dict[str, Any]:
    run = listed.run
    return {
        "id": run.id,
        "state": run.state,
        "pipeline": run.reference or run.pipeline,
        "steps": len(run.steps),
        "steps_done": run.done,
        "started": run.started.isoformat() if run.started else None,
        "seconds": round(run.seconds, 3),
        **listed.links,
        **({"metrics": dict(listed.metrics)} if columns else {}),
    }
