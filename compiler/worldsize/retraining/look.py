"""One look, wherever the facts are: finds them, decides, takes the action, and says how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from typing import Any, Protocol, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct

from worldsize.azureml.cron import Trigger, due_times, load_time_zones, read_cron
from worldsize.base.problem import HelpfulError
from worldsize.retraining.decide import Action, Notice, decide
from worldsize.retraining.facts import Facts
from worldsize.retraining.policy import Policy, read_policy
from worldsize.running.record.models import DATA_TAG, list_metrics
from worldsize.spec.model import Schedule, Spec
from wschampion.champion import Version
from wsmetrics.names import choose_headline

MAX_ACTIONS = 10  # of one look: the world may change while it acts
MAX_FIRINGS = 10_000
_QUEUE_SECONDS = 1.0  # between two tries of a look that waits for another


class RetrainError(HelpfulError):
    """A spec that cannot be retrained."""


def require_policy(spec: Spec) -> Policy:
    """The policy of a spec.

    Raises:
        RetrainError: It has none.
    """
    if spec.retrain is None:
        message = f"`{spec.path}` has no `retrain:`"
        raise RetrainError(message, "add `retrain: {}`, which has a careful default for each key")
    return read_policy(spec.retrain)


class Outcome(Struct, frozen=True):
    """How a look ended, as `worldsize retrain --json` prints it."""

    action: str  # train, none, stop, promote, keep, wait
    reason: str
    champion: Mapping[str, Any] | None = None
    challenger: Mapping[str, Any] | None = None
    difference: Mapping[str, Any] | None = None
    model: str | None = None  # the name in the registry


class Seen(Protocol):
    """What one look works on."""

    @property
    def facts(self) -> Facts:
        """What it decides by."""


_Seen = TypeVar("_Seen", bound=Seen)


class World(Protocol[_Seen]):
    """Where a pipeline is trained: this machine, or a workspace."""

    def hold(self) -> AbstractContextManager[bool]:
        """Keep other looks from acting meanwhile; False if another one does."""

    def see(self, *, looking: bool) -> _Seen:
        """Find the facts; ``looking`` says that another look is at work."""

    def act(self, seen: _Seen, action: Action) -> Outcome | None:
        """Take an action; how the look ends, if it ends with that."""

    def describe(self, seen: _Seen, action: Action) -> Outcome:
        """How a look ends that takes no action."""

    def mark_told(self, seen: _Seen, cause: str, /) -> bool:
        """Remember that a notice is given; False if another look has given it."""


def take_look(
    world: World[_Seen], policy: Policy, now: float, notify: Callable[[Notice], None] = lambda _: None
) -> Outcome:
    """Look at the world, and take at most one action.

    Two looks at the same moment train once: one of them holds the world until it is done.
    """
    actions = 0
    while actions < MAX_ACTIONS:
        with world.hold() as held:
            seen = world.see(looking=not held)
            action = decide(seen.facts, policy, now)
            for notice in action.notices:
                if world.mark_told(seen, notice.cause):
                    notify(notice)
            outcome = world.act(seen, action) if held or action.kind == "end" else None
            if outcome is not None:
                return outcome
        if action.kind == "wait" and policy.overlap == "queue" and action.until is None:
            time.sleep(_QUEUE_SECONDS)
            continue
        if action.kind in ("none", "stop", "wait"):
            return world.describe(seen, action)
        actions += 1
    return Outcome("wait", "the data changes faster than it can be read: look again later")


def count_firings(schedule: Schedule | None, since: float, until: float) -> int | None:
    """The firings of a schedule in a time; None without one."""
    if schedule is None or since > until:
        return None
    start, end = (datetime.fromtimestamp(moment, timezone.utc) for moment in (since, until))
    if schedule.cron is None:
        return int((end - start) / _read_interval(schedule))
    zone = ZoneInfo("UTC")
    if schedule.time_zone is not None:
        installed = available_timezones()
        names = load_time_zones().get(schedule.time_zone.value, ())
        zone = next((ZoneInfo(name) for name in names if name in installed), zone)
    trigger = Trigger(zone, read_cron(schedule.cron.value), start, start)
    count = 0
    for moment in due_times(trigger, start):
        if moment > end or count == MAX_FIRINGS:
            break
        count += 1
    return count


_DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.5}


def _read_interval(schedule: Schedule) -> timedelta:
    recurrence = schedule.recurrence.value if schedule.recurrence is not None else {}
    days = _DAYS.get(str(recurrence.get("frequency")).lower(), 1.0)
    return timedelta(days=days) * max(1, int(recurrence.get("interval") or 1))


def describe_champion(model: str | None, champion: Version, policy: Policy) -> dict[str, Any]:
    """The champion in the answer of a look that trains nothing, with the metric that decides."""
    metrics = list_metrics(champion)
    name = policy.metric or next(iter(choose_headline(metrics)), "")
    return {
        "name": model,
        "version": champion.version,
        "metric": metrics.get(name),
        "trained_until": champion.tags.get(f"{DATA_TAG}trained_before"),
    }
