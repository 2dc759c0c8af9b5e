"""The store of reusable steps: for each key the run and step that have it. No content is copied.

``<home>/cache/steps/<key>.json`` names a run and a step of the same home, whose folder lists the outputs
(:mod:`~worldsize.running.reuse.step_cache`). A reused step has links to them. Entries are written and
removed as a whole, so concurrent runs can use a store; if two of them add the same key, the last one counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from worldsize.base import untrusted
from worldsize.base.whole_file import SUFFIX
from worldsize.running.model.folder import RunFolder, StepFolder, make_link
from worldsize.running.record.folder import is_alive
from worldsize.running.record.history import list_runs
from worldsize.running.record.json_files import is_file_name, read_json, write_json

VERSION = 1
_KEY = re.compile(r"[0-9a-f]{64}")
_STALE_SECONDS = 3600.0  # an incomplete file of this age has no writer

LINK_FILE = "reused.json"


class StoreEntry(Struct, frozen=True):
    """A step that ran. Times are seconds since the epoch; ``used`` is the time of the last reuse."""

    key: str
    run: str
    step: str
    made: float
    seconds: float
    size: int
    hits: int = 0
    used: float | None = None

    @property
    def newest(self) -> float:
        """The time when it was made or last reused."""
        return max(self.made, self.used or 0.0)


class Store:
    """The entries of a folder of runs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "cache" / "steps"
        self.digests = home / "cache" / "digests"

    @property
    def empty(self) -> bool:
        """Whether it has no entries."""
        return next(self._list_files(), None) is None

    def find(self, key: str) -> StoreEntry | None:
        """The entry of a key."""
        return self._read_entry(self._entry_path(key))

    def folder(self, entry: StoreEntry) -> StepFolder:
        """The folder of the step that an entry points to."""
        return RunFolder(self.home / "runs" / entry.run).step(entry.step)

    def add(self, entry: StoreEntry) -> None:
        """Add or replace an entry."""
        write_json(self._entry_path(entry.key), {"version": VERSION, **msgspec.to_builtins(entry)})

    def count(self, entry: StoreEntry) -> None:
        """Count a use of an entry: one byte per use, so that concurrent runs can append."""
        with contextlib.suppress(OSError):
            untrusted.check_file(self._hits_path(entry.key))
            with self._hits_path(entry.key).open("ab") as file:
                file.write(b".")

    def remove(self, entry: StoreEntry) -> None:
        """Remove an entry, but not the step that it points to."""
        for path in (self._entry_path(entry.key), self._hits_path(entry.key)):
            with contextlib.suppress(OSError):
                path.unlink()

    def entries(self) -> list[StoreEntry]:
        """All entries, the oldest first, without damaged ones."""
        entries = filter(None, map(self._read_entry, self._list_files()))
        return sorted(entries, key=lambda entry: (entry.made, entry.key))

    def tidy(self) -> None:
        """Remove damaged entries, files without an entry, and files of writers that died."""
        for path in self._list_files():
            if self._read_entry(path) is None:
                path.unlink(missing_ok=True)
        for path in self.root.glob("*.hits"):
            if not path.with_suffix(".json").exists():
                path.unlink(missing_ok=True)
        for folder in (self.root, self.digests):
            for path in folder.glob(f".*{SUFFIX}"):
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                        path.unlink()

    @contextlib.contextmanager
    def locked(self, *, alone: bool = False) -> Iterator[None]:
        """Lock the store: shared to link to entries, or ``alone`` to remove them."""
        self.root.mkdir(parents=True, exist_ok=True)
        untrusted.check_file(self.root.parent / "lock")
        with (self.root.parent / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield

    def _entry_path(self, key: str) -> Path:
        return self.root / f"{key}.json"

    def _hits_path(self, key: str) -> Path:
        return self.root / f"{key}.hits"

    def _list_files(self) -> Iterator[Path]:
        with contextlib.suppress(OSError):
            for path in self.root.iterdir():
                if path.suffix == ".json" and _KEY.fullmatch(path.stem):
                    yield path

    def _read_entry(self, path: Path) -> StoreEntry | None:
        document = read_json(path)
        if document is None or document.get("version") != VERSION:
            return None
        try:
            entry = msgspec.convert({**document, "key": path.stem}, StoreEntry)
        except (ValueError, OverflowError):
            return None
        if not all(map(math.isfinite, (entry.made, entry.seconds))):
            return None
        if not all(map(is_file_name, (entry.run, entry.step))):  # only folders of this home are allowed
            return None
        hits, used = 0, None
        with contextlib.suppress(OSError):
            status = self._hits_path(path.stem).stat()
            hits, used = status.st_size, status.st_mtime
        return replace(entry, hits=hits, used=used)


class Original(Struct, frozen=True):
    """The run and step of a reused step."""

    run: str
    step: str


def link_step(folder: StepFolder, original: StepFolder, outputs: Iterable[str], source: Original) -> None:
    """Make the folder of a reused step."""
    pairs = [(folder.code, original.code), (folder.logs, original.logs)]
    pairs += [(folder.outputs / name, original.outputs / name) for name in outputs]
    try:
        folder.outputs.mkdir(parents=True)
        for mine, theirs in pairs:
            make_link(mine, theirs)
        write_json(folder.root / LINK_FILE, asdict(source))
    except OSError:
        shutil.rmtree(folder.root, ignore_errors=True)
        raise


def read_original(folder: StepFolder) -> Original | None:
    """The run and step of a reused step; None for a step that is not reused."""
    document = read_json(folder.root / LINK_FILE)
    if document is None:
        return None
    run, step = str(document.get("run", "")), str(document.get("step", ""))
    return Original(run, step) if is_file_name(run) and is_file_name(step) else None


def find_original(root: Path, step: str) -> Original:
    """The run and step that did the work of a step of the run in ``root``: its own, unless it was reused.

    The step's name may contain anything.
    """
    original = read_original(RunFolder(root).step(step)) if is_file_name(step) else None
    return original or Original(root.name, step)


def original_folder(run: RunFolder, source: Original) -> StepFolder:
    """The folder of an original step, in the same home as a run."""
    return RunFolder(run.root.parent / source.run).step(source.step)


_BEGINNING_SECONDS = 60.0  # the age of a folder before its run holds the lock
_TRASH = ".removed-"  # runs with this prefix are not listed


class Removal(Struct, frozen=True):
    """What to remove. ``size`` is that of the runs' files; entries have a few hundred bytes."""

    entries: tuple[StoreEntry, ...]
    runs: tuple[Path, ...]
    size: int


def plan_removal(store: Store, *, now: float, older: float, runs: bool) -> Removal:
    """Plan the removal of what has not been used for some time.

    Args:
        store: The store.
        now: Seconds since the epoch.
        older: Seconds since an entry was made or last used, or since a run was last written to.
        runs: Whether to remove unneeded runs too: no remaining entry or run refers to them.
    """
    entries = store.entries()
    going = tuple(entry for entry in entries if now - entry.newest >= older)
    staying = {entry.run for entry in entries if entry not in going}
    removed = _find_unneeded(store, staying, now - older, now) if runs else ()
    return Removal(going, removed, sum(_measure_size(path) for path in removed))


def remove_unused(store: Store, removal: Removal) -> list[Path]:
    """Carry out a removal, except for what was used since it was planned; the removed runs."""
    removed = []
    with store.locked(alone=True):
        for entry in removal.entries:
            if store.find(entry.key) == entry:
                store.remove(entry)
        store.tidy()
        staying = {entry.run for entry in store.entries()}
        needed = _find_needed(store, staying, removal.runs)
        for path in removal.runs:
            if path.name not in needed and not is_alive(path):
                with contextlib.suppress(OSError):
                    path.rename(path.with_name(f"{_TRASH}{path.name}"))
                    removed.append(path)
    for trashed in (store.home / "runs").glob(f"{_TRASH}*"):  # also those of a removal that was killed
        shutil.rmtree(trashed, ignore_errors=True)
    return removed


def _find_unneeded(store: Store, staying: Collection[str], before: float, now: float) -> tuple[Path, ...]:
    candidates = []
    for path in list_runs(store.home):
        newest = _read_newest_time(path)
        young = now - newest < _BEGINNING_SECONDS and not (path / "events.jsonl").exists()
        if newest <= before and not young and not is_alive(path):
            candidates.append(path)
    needed = _find_needed(store, staying, candidates)
    return tuple(path for path in candidates if path.name not in needed)


def _find_needed(store: Store, staying: Collection[str], candidates: Iterable[Path]) -> set[str]:
    """The runs that entries and other runs refer to, directly or indirectly."""
    going = {path.name for path in candidates}
    runs = {path.name: path for path in list_runs(store.home)}
    needed: set[str] = set()
    pending = [*staying, *(name for name in runs if name not in going)]
    while pending:
        name = pending.pop()
        if name in needed or name not in runs:
            continue
        needed.add(name)
        pending += _list_references(runs[name])
    return needed


def _list_references(run: Path) -> list[str]:
    originals = (read_original(StepFolder(step)) for step in (run / "steps").glob("*"))
    return [original.run for original in originals if original is not None]


def _read_newest_time(run: Path) -> float:
    """The time when a run was last written to, by its log."""
    times = [0.0]
    for path in (run, run / "events.jsonl"):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def _measure_size(path: Path) -> int:
    """The bytes of a folder's files, without links."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{folder}/{name}").st_size
    return total
