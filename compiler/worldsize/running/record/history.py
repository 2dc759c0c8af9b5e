"""Reads past runs from their folders; what is missing or damaged is left out and is not an error."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.base import limits, untrusted
from worldsize.base.suggest import closest
from worldsize.running.model.folder import is_served_job
from worldsize.running.model.results import DONE
from worldsize.running.record.folder import is_running, scan_events
from worldsize.running.record.json_files import read_json

RECORD = "run.json"
_TIMED_ID = re.compile(r"\d{8}-\d{6}-\d{3}")
MAX_SECONDS = 1e10  # three hundred years


class StepRecord(Struct):
    """A step by its event log. ``started`` is the time of day."""

    name: str
    state: str = "waiting"
    seconds: float = 0.0
    started: datetime | None = None
    attempts: int = 0
    reason: str | None = None
    source: str | None = None  # the run whose outputs were reused
    needs: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    defaults: frozenset[str] = frozenset()  # parameters with the component's default, where that is known
    processes: tuple[str, ...] = ()
    failed_process: str | None = None  # the first that failed
    last_lines: tuple[str, ...] | None = None  # of it, without secrets; None in older records
    warnings: tuple[str, ...] = ()  # of its component, without secrets

    @property
    def notes(self) -> list[str]:
        """What is unusual about how it ran: reused, more than one attempt or process."""
        notes = [f"from run {self.source}"] if self.source else []
        notes += [f"{self.attempts} attempts"] if self.attempts > 1 else []
        return notes + ([f"{len(self.processes)} processes"] if len(self.processes) > 1 else [])


_WRITTEN = ("logs/*", "heartbeats/*", "progress.jsonl")  # by processes of a step while they run


class RunRecord(Struct):
    """One run. ``state`` is ``running``, ``died``, ``succeeded``, ``failed`` or ``interrupted``."""

    root: Path
    state: str
    pipeline: str = ""
    title: str = ""  # that the job gives itself
    reference: str = ""  # `file.py:function`, where that is what ran
    started: datetime | None = None
    seconds: float = 0.0
    reason: str | None = None  # why it failed although no step did
    steps: dict[str, StepRecord] = field(default_factory=dict)
    resumed: int = 0
    damaged: int = 0  # lines of the event log that could not be read
    died: datetime | None = None  # when it gave its last sign of life, if its runner died
    request: Mapping[str, Any] = field(default_factory=dict)  # its `run.json`
    events: Sequence[Mapping[str, Any]] = ()  # its event log; left out where many runs are listed

    @property
    def id(self) -> str:
        """The name of its folder."""
        return self.root.name

    @property
    def label(self) -> str:
        """The file of the pipeline, or what people call one whose file was written for them.

        That is the function of a pipeline in Python, and the title of a job of the local workspace.
        """
        if self.reference:
            return self.reference
        return self.title if self.title and is_served_job(Path(self.pipeline)) else self.pipeline

    @property
    def done(self) -> int:
        """The number of steps that succeeded or were reused."""
        return sum(step.state in DONE for step in self.steps.values())


def list_runs(home: Path) -> list[Path]:
    """The folders of a home's runs, in the order in which they started."""
    try:
        folders = [path for path in (home / "runs").iterdir() if path.is_dir() and path.name[0] != "."]
    except OSError:
        return []
    return sorted(folders, key=_find_start)


def _find_start(root: Path) -> str:
    """When a run started, as ids have it; a job of the local workspace has an id that does not say so."""
    if _TIMED_ID.match(root.name):
        return root.name
    try:
        with untrusted.open_file(root / "events.jsonl") as file:
            started = datetime.fromisoformat(json.loads(file.readline(limits.SIZE))["time"])
    except (OSError, ValueError, TypeError, KeyError):
        return root.name
    return f"{started.astimezone(timezone.utc):%Y%m%d-%H%M%S-%f}"


def find_run(home: Path, text: str) -> Path:
    """Find a run by its id, by the beginning of its id, or by ``last``.

    Raises:
        LookupError: There is none, or more than one.
    """
    runs = list_runs(home)
    matching = runs[-1:] if text == "last" else [path for path in runs if path.name.startswith(text)]
    exact = [path for path in matching if path.name == text]
    if len(matching) == 1 or exact:
        return (exact or matching)[0]
    if not runs:
        raise LookupError(f"there is no run in `{home}`")
    if not matching:
        near = closest(text, [path.name for path in runs])
        hint = f": did you mean `{near}`?" if near else ""
        raise LookupError(f"there is no run `{text}` in `{home}`{hint}")
    names = ", ".join(f"`{path.name}`" for path in matching[-3:])
    raise LookupError(f"`{text}` begins the ids of {len(matching)} runs, such as {names}")


def load_run(root: Path, *, mine: bool = False) -> RunRecord:
    """Read the record of a run. With ``mine`` the caller holds its lock, so that the run cannot be active.

    Raises:
        UnreadableError: Its log is not a file.
    """
    running = not mine and is_running(root)  # looked up first: a run that ends now has its end in the log
    events, damaged = scan_events(root / "events.jsonl")
    request = read_json(root / RECORD) or {}
    run = RunRecord(
        root,
        "died",
        pipeline=_to_text(request.get("target")),
        title=_to_text(request.get("title")),
        reference=_to_text(request.get("reference")),
        steps=_read_steps(request),
        damaged=damaged,
        request=request,
        events=events,
    )
    for event in events:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            if (handle := _HANDLERS.get(event["event"])) is not None:
                handle(run, event)
    if running:
        run.state = "running"
    _set_times(run)
    return run


def _read_steps(request: Mapping[str, Any]) -> dict[str, StepRecord]:
    """The steps of a ``run.json``, none of which has started."""
    steps = {}
    for name, recorded in _to_mapping(request.get("steps")).items():
        document = _to_mapping(recorded)
        parameters = _to_mapping(document.get("parameters"))
        steps[name] = StepRecord(
            name,
            needs=tuple(map(str, _to_list(document.get("needs")))),
            parameters={key: _to_text(value) for key, value in parameters.items()},
            defaults=frozenset(map(str, _to_list(document.get("defaults")))),
        )
    return steps


def load_runs(roots: Iterable[Path]) -> Iterator[RunRecord]:
    """The records of several runs; warns of one that cannot be read, and leaves it out."""
    for root in roots:
        with untrusted.passed_over():
            yield replace(load_run(root), events=())


def _find_last_sign(root: Path, last_event: datetime) -> datetime:
    """When a run that died was alive last: at an event, or later, when one of its processes wrote.

    The times of files say how much later, compared with each other, because a copy has times of its own.
    """
    times = []
    for pattern in ("events.jsonl", *(f"steps/*/{name}" for name in _WRITTEN)):
        for path in root.glob(pattern):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime)
    return last_event + timedelta(seconds=max(times) - times[0] if times else 0)


def _set_times(run: RunRecord) -> None:
    """Set the durations of a run, without the pauses before it was resumed.

    That of a run without an end lasts until now, or until its last sign of life.
    """
    attempts: list[list[datetime]] = [[]]
    for event in run.events:
        attempts += [[]] if event["event"] == "run_resumed" else []
        time = parse_time(event)
        attempts[-1] += [time] if time is not None else []
    periods = [(times[0], times[-1]) for times in attempts if times]
    run.seconds += sum(max(0.0, (end - start).total_seconds()) for start, end in periods[:-1])
    if run.state not in ("running", "died"):
        return
    last = datetime.now(timezone.utc)
    if run.state == "died" and periods:
        last = run.died = _find_last_sign(run.root, periods[-1][1])
    if periods and (run.started or run.resumed):
        run.seconds += max(0.0, (last - periods[-1][0]).total_seconds())
    for step in run.steps.values():
        if step.state == "running":
            step.state = run.state
            step.seconds = max(0.0, (last - step.started).total_seconds()) if step.started else 0.0


def _run_started(run: RunRecord, event: Mapping[str, Any]) -> None:
    run.state = "died"
    run.started = parse_time(event)
    run.pipeline = run.pipeline or _to_text(event.get("pipeline"))
    for name in map(str, _to_list(event.get("steps"))):
        run.steps.setdefault(name, StepRecord(name))


def _run_resumed(run: RunRecord, _event: Mapping[str, Any]) -> None:
    run.state, run.seconds = "died", 0.0
    run.resumed += 1
    for step in run.steps.values():
        if step.state not in DONE:
            step.state, step.reason = "waiting", None


def _run_ended(run: RunRecord, event: Mapping[str, Any]) -> None:
    run.state = _to_text(event.get("state"))
    run.seconds = _parse_seconds(event)


def _get_step(run: RunRecord, event: Mapping[str, Any]) -> StepRecord:
    name = str(event["step"])
    return run.steps.setdefault(name, StepRecord(name))


def _step_started(run: RunRecord, event: Mapping[str, Any]) -> None:
    step = _get_step(run, event)
    step.state, step.started = "running", parse_time(event)
    step.attempts += 1
    step.failed_process = None
    listed = (_to_mapping(process) for process in _to_list(event.get("processes")))
    step.processes = tuple(_to_text(process.get("name")) for process in listed)


def _process_ended(run: RunRecord, event: Mapping[str, Any]) -> None:
    step = _get_step(run, event)
    if event.get("status") != 0 and step.failed_process is None:
        step.failed_process = _to_text(event.get("process"))


def _step_reused(run: RunRecord, event: Mapping[str, Any]) -> None:
    source = _to_text(event.get("run"))
    if source != run.root.name:
        _get_step(run, event).source = source


def _step_ended(run: RunRecord, event: Mapping[str, Any]) -> None:
    step = _get_step(run, event)
    step.state = _to_text(event.get("state"))
    # A step that a resumed run keeps ends once more, with no duration.
    step.seconds = _parse_seconds(event) or (step.seconds if step.state in DONE else 0.0)
    step.reason = _to_text(event["reason"]) if event.get("reason") else None
    lines = event.get("last_lines")
    step.last_lines = tuple(map(_to_text, lines)) if isinstance(lines, list) else None
    warnings = event.get("warnings")
    step.warnings = tuple(map(_to_text, warnings)) if isinstance(warnings, list) else ()


_HANDLERS = {
    "run_started": _run_started,
    "run_resumed": _run_resumed,
    "run_ended": _run_ended,
    "step_started": _step_started,
    "process_ended": _process_ended,
    "step_reused": _step_reused,
    "step_ended": _step_ended,
}


def parse_time(event: Mapping[str, Any]) -> datetime | None:
    """When an event happened; None if its time is damaged."""
    try:
        time = datetime.fromisoformat(str(event.get("time")))
        time = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
        time.astimezone()  # years 1 and 9999 have no local time everywhere
    except (ValueError, OverflowError, OSError):
        return None
    return time


def _parse_seconds(event: Mapping[str, Any]) -> float:
    """A duration from a log: a finite number that is not negative, else 0."""
    seconds = event.get("seconds", 0.0)
    sound = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < MAX_SECONDS
    return float(seconds) if sound else 0.0


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _to_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
