"""What the options of a run add to its schedule."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worldsize.running.expansion import Expansion
from worldsize.running.extensions import Memory, Nothing, Restarts, Watcher
from worldsize.running.folder import RunFolder
from worldsize.running.nodes.injection import Injection
from worldsize.running.places import Here, Places
from worldsize.running.preparation import Prepared
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
    prepared: Prepared, place: RunFolder, home: Path, tracker: Tracking, view: View
) -> Iterator[Equipment]:
    """The equipment of a run, for as long as it goes on.

    Args:
        prepared: The pipeline, with its options.
        place: The run's folder.
        home: What runs share.
        tracker: The line to MLflow.
        view: Shows what goes on.

    Raises:
        RunError: An option cannot be had on this machine.
    """
    emulated = prepared.emulation
    watchers: list[Watcher] = []
    if emulated.faults:
        watchers.append(Injection(emulated.faults, emulated.namespaces, view.notice))
    yield Equipment(places=emulated.places, watchers=watchers)
