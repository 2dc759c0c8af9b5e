"""What the options of a run add to its schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.running.events import EventLog
from worldsize.running.expansion import Expansion
from worldsize.running.extensions import Memory, Nothing, Restarts, Watcher
from worldsize.running.folder import RunFolder
from worldsize.running.hangs import Hangs
from worldsize.running.history import RunRecord
from worldsize.running.nodes.injection import Injection
from worldsize.running.places import Here, Places
from worldsize.running.preparation import Prepared
from worldsize.running.restarts import Policy, Restarting
from worldsize.running.reuse import memory
from worldsize.running.reuse.store import Store
from worldsize.running.sweep.controller import expansions
from worldsize.running.tracking import Tracking
from worldsize.running.view import View


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
    sweeps = expansions(prepared.graph.sweeps, prepared.tasks, place, tracker, log=log, notice=view.notice)
    restarting = Restarting(Policy(prepared.options.max_restarts or 0, seed=place.id), view.notice)
    yield Equipment(
        memory=remembering,
        restarts=restarting,
        places=emulated.places,
        watchers=watchers,
        expansions=sweeps,
    )
    injection.account()
