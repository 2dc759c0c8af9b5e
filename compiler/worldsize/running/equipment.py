"""What the options of a run add to its schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.running.expansion import Expansion
from worldsize.running.extensions import Memory, Nothing, Restarts, Watcher
from worldsize.running.nodes.injection import Injection
from worldsize.running.places import Here, Places
from worldsize.running.preparing.preparation import Prepared
from worldsize.running.recording.events import EventLog
from worldsize.running.recording.folder import RunFolder
from worldsize.running.recording.history import RunRecord
from worldsize.running.recording.tracking import Tracking
from worldsize.running.recovering import chaos
from worldsize.running.recovering.hangs import Hangs
from worldsize.running.recovering.rehearsal import Rehearsal
from worldsize.running.recovering.restarts import Policy, Restarting, keeps_checkpoints
from worldsize.running.reuse import memory
from worldsize.running.reuse.store import Store
from worldsize.running.showing.view import View
from worldsize.running.sweep.controller import expansions

SPARE_RESTARTS = 2  # of a rehearsal, beyond those that its faults need


@dataclass(frozen=True, slots=True)
class Equipment:
    """Each part adds nothing by default."""

    memory: Memory = field(default_factory=Nothing)
    restarts: Restarts = field(default_factory=Nothing)
    places: Places = field(default_factory=Here)
    watchers: Sequence[Watcher] = ()
    expansions: Mapping[str, Expansion] = field(default_factory=dict)


@contextlib.contextmanager
def of(
    prepared: Prepared,
    place: RunFolder,
    home: Path,
    tracker: Tracking,
    view: View,
    *,
    stopping: Callable[[], bool] = lambda: False,
    earlier: RunRecord | None = None,
    log: EventLog,
) -> Iterator[Equipment]:
    """The equipment of a run, for as long as it goes on.

    Args:
        prepared: The pipeline, with its options.
        place: The run's folder.
        home: What runs share.
        tracker: The line to MLflow.
        view: Shows what goes on.
        stopping: Whether the user has asked to stop.
        earlier: What is known of the run, where it is resumed.
        log: The event log.

    Raises:
        RunError: An option cannot be had on this machine.
    """
    emulated = prepared.emulation
    watchers: list[Watcher] = [Hangs(view.notice)]
    injection = Injection(emulated.faults, emulated.namespaces, view.notice)
    watchers.append(injection)
    remembering = memory.of(prepared, place, Store(home), view.notice, stopping=stopping, earlier=earlier)
    sweeps = expansions(prepared.graph.sweeps, prepared.tasks, place, tracker, log=log)
    rehearsal = _rehearsal(prepared, view)
    watchers.append(rehearsal)
    asked = prepared.options.max_restarts
    most = {} if asked is not None else _restarts(prepared, rehearsal)
    restarting = Restarting(Policy(asked or 0, seed=place.id), most, view.notice)
    yield Equipment(
        memory=remembering,
        restarts=restarting,
        places=emulated.places,
        watchers=watchers,
        expansions=sweeps,
    )
    injection.account()
    for line in rehearsal.report():
        view.notice(line)


def _rehearsal(prepared: Prepared, view: View) -> Rehearsal:
    """What ``--chaos`` asks for; without it nothing happens."""
    seed, networks = prepared.options.chaos, prepared.emulation.namespaces
    if seed is None:
        return Rehearsal({}, networks, view.notice)
    plans = {
        name: chaos.draw(seed, name, task.world_size, task.instance_count if networks else 0)
        for name, task in prepared.tasks.items()
        if keeps_checkpoints(task)
    }
    for line in chaos.schedule(seed, plans):
        view.notice(line)
    return Rehearsal(plans, networks, view.notice)


def _restarts(prepared: Prepared, rehearsal: Rehearsal) -> dict[str, int]:
    """By step, as many as its spec says; a rehearsal brings those that it needs."""
    found = dict(prepared.restarts)
    for name, faults in rehearsal.plans.items():
        needed = sum(fault.ends_a_try for fault in faults)
        found[name] = max(found.get(name, 0), needed + SPARE_RESTARTS if needed else 0)
    return found
