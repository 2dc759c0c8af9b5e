"""What can be removed from a folder of runs, and its removal: never a run that goes on, or that one needs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from worldsize.running.model.folder import RunFolder, StepFolder
from worldsize.running.record.folder import is_alive
from worldsize.running.record.history import list_runs
from worldsize.running.reuse.store import Store, StoreEntry, read_original

_BEGINNING_SECONDS = 60.0  # a folder may be that old before its run holds the lock
_TRASH = ".removed-"  # runs that begin so are not listed


@dataclass(frozen=True, slots=True)
class Removal:
    """What would go. ``size`` is the bytes of the runs' files; entries themselves are a few hundred each."""

    entries: tuple[StoreEntry, ...]
    runs: tuple[Path, ...]
    size: int


def plan_removal(store: Store, *, now: float, older: float, runs: bool) -> Removal:
    """What has not been used for a time.

    Args:
        store: The store.
        now: Seconds since the epoch.
        older: Seconds since an entry was made or last used, or since a run was last written to.
        runs: Whether runs that nothing needs go too: no entry that stays, no run that stays or goes on.
    """
    entries = store.entries()
    going = tuple(entry for entry in entries if now - entry.newest >= older)
    staying = {entry.run for entry in entries if entry not in going}
    removed = _unneeded(store, staying, now - older, now) if runs else ()
    return Removal(going, removed, sum(_size(path) for path in removed))


def remove_unused(store: Store, removal: Removal) -> list[Path]:
    """Remove; what has been taken up since the plan was made stays.

    Returns:
        The runs that were removed.

    Raises:
        OSError: The store cannot be locked.
    """
    trash = []
    with store.locked(alone=True):
        for entry in removal.entries:
            if store.find(entry.key) == entry:
                store.remove(entry)
        store.tidy()
        staying = {entry.run for entry in store.entries()}
        needed = _needed(store, staying, removal.runs)
        for path in removal.runs:
            if path.name not in needed and not is_alive(path):
                aside = path.with_name(f"{_TRASH}{path.name}")
                with contextlib.suppress(OSError):
                    path.rename(aside)
                    trash.append((path, aside))
    for left in (store.home / "runs").glob(f"{_TRASH}*"):  # those of a removal that was killed, too
        shutil.rmtree(left, ignore_errors=True)
    return [path for path, _ in trash]


def _unneeded(store: Store, staying: Collection[str], before: float, now: float) -> tuple[Path, ...]:
    candidates = []
    for path in list_runs(store.home):
        newest = _newest(path)
        young = now - newest < _BEGINNING_SECONDS and not (path / "events.jsonl").exists()
        if newest <= before and not young and not is_alive(path):
            candidates.append(path)
    needed = _needed(store, staying, candidates)
    return tuple(path for path in candidates if path.name not in needed)


def _needed(store: Store, staying: Collection[str], candidates: Iterable[Path]) -> set[str]:
    """The runs that entries and other runs refer to, and those that these refer to."""
    going = {path.name for path in candidates}
    known = {path.name: path for path in list_runs(store.home)}
    needed: set[str] = set()
    left = [*staying, *(name for name in known if name not in going)]
    while left:
        name = left.pop()
        if name in needed or name not in known:
            continue
        needed.add(name)
        left += _references(known[name])
    return needed


def _references(run: Path) -> list[str]:
    """The runs whose outputs a run's steps are links to."""
    runs = []
    with contextlib.suppress(OSError):
        for step in os.scandir(RunFolder(run).step("x").root.parent):
            original = read_original(StepFolder(Path(step.path)))
            if original is not None:
                runs.append(original.run)
    return runs


def _newest(run: Path) -> float:
    """When a run was last written to, as far as its log tells."""
    times = [run, run / "events.jsonl"]
    times_found = []
    for path in times:
        with contextlib.suppress(OSError):
            times_found.append(path.stat().st_mtime)
    return max(times_found, default=0.0)


def _size(path: Path) -> int:
    """Bytes of a folder's files; links count for nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{folder}/{name}").st_size
    return total
