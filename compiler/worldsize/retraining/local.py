"""The facts as this machine has them: the folders of runs, beside a record of what each attempt has read."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from worldsize.azureml.cron import Trigger, due_times, load_time_zones, read_cron
from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.retraining.data import Reading
from worldsize.retraining.facts import Attempt, Cause, Fingerprint, limit_run
from worldsize.running.model.folder import ignore_in_git
from worldsize.running.model.results import DONE
from worldsize.running.record.details import LocalDetails
from worldsize.running.record.history import RECORD, RunRecord, load_run
from worldsize.running.record.json_files import read_json, write_json
from worldsize.spec.model import Schedule
from wsshards.errors import RESUME_EXIT_STATUS
from wstrain.health.watchdog import HANG_EXIT_STATUS

ATTEMPT = "attempt.json"
MAX_FIRINGS = 10_000


class Start(Struct, frozen=True):
    """A look that started or continued a run."""

    run: str
    now: float  # the time of the look


class AttemptRecord(Struct, frozen=True):
    """What is kept of the attempts with one fingerprint: what was read, and who started what."""

    fingerprint: Fingerprint
    readings: Mapping[str, Reading] = field(default_factory=dict)
    trainers: tuple[str, ...] = ()
    starts: tuple[Start, ...] = ()


class Place(Struct, frozen=True):
    """Where the runs of a home are, and in it the folder of a retrained pipeline."""

    home: Path
    name: str

    @property
    def root(self) -> Path:
        """The folder of the pipeline."""
        return self.home / "retrain" / self.name

    def attempt(self, fingerprint: Fingerprint) -> Path:
        """The folder of the attempts with a fingerprint."""
        text = msgspec.json.encode(fingerprint, order="sorted")
        return self.root / hashlib.sha256(text).hexdigest()[:16]

    def run(self, name: str) -> Path:
        """The folder of a run."""
        return self.home / "runs" / name


def make_place(home: Path, name: str) -> Place:
    """The place of a pipeline, whose folder is made.

    Raises:
        OSError: It cannot be made.
    """
    place = Place(home.resolve(), name)
    place.root.mkdir(parents=True, exist_ok=True)
    ignore_in_git(place.home)
    return place


def read_record(folder: Path) -> AttemptRecord | None:
    """The record of a folder of attempts; None if there is none, or it is damaged."""
    try:
        return msgspec.convert(read_json(folder / ATTEMPT), AttemptRecord)
    except msgspec.ValidationError:
        return None


def add_start(folder: Path, record: AttemptRecord, start: Start) -> AttemptRecord:
    """Record that a run is about to start; without its folder, the start counts as never made.

    Raises:
        OSError: The record cannot be written.
    """
    record = replace(record, starts=(*record.starts, start))
    write_json(folder / ATTEMPT, msgspec.to_builtins(record), flush=True)
    return record


def read_attempts(place: Place, estimated: float | None = None) -> list[tuple[Attempt, AttemptRecord]]:
    """All attempts, in the order in which they were started last.

    The time that the plan estimates is of its cluster, so here it alone limits nothing.
    """
    attempts = []
    for path in place.root.glob(f"*/{ATTEMPT}"):
        record = read_record(path.parent)
        if record is not None:
            runs = dict.fromkeys(start.run for start in record.starts)
            attempts += [(attempt, record) for run in runs for attempt in _read_attempt(place, record, run)]
    attempts.sort(key=lambda pair: (pair[0].began, pair[0].run))
    longest = max(
        (attempt.ended - attempt.began for attempt, _ in attempts if attempt.state == "finished"),
        default=None,
    )
    limit = None if longest is None else limit_run(longest, estimated)
    return [(replace(attempt, limit=limit), record) for attempt, record in attempts]


def _read_attempt(place: Place, record: AttemptRecord, name: str) -> Iterator[Attempt]:
    root, starts = place.run(name), [start.now for start in record.starts if start.run == name]
    if not (root / RECORD).exists():  # its runner died before the first step
        return
    try:
        run = load_run(root)
    except untrusted.UnreadableError as error:
        error.warn()
        return
    attempt = Attempt(
        name,
        record.fingerprint,
        "interrupted",
        firing=starts[0],
        began=starts[-1],
        ended=starts[-1] + run.seconds,
        starts=len(starts),
        trained=bool(record.trainers) and all(_is_done(run, trainer) for trainer in record.trainers),
    )
    if run.state == "running":
        yield replace(attempt, state="running")
    elif run.state == "failed":
        cause, reason = explain_failure(run)
        yield replace(attempt, state="failed", cause=cause, reason=reason)
    elif run.state == "succeeded":
        promotion = read_document(run, "promotion")
        if promotion is None:
            yield replace(attempt, state="failed", cause="code", reason="no step wrote a promotion")
        else:
            verdict = "promote" if promotion.get("action") == "promote" else "keep"
            yield replace(
                attempt, state="finished", verdict=verdict, reason=str(promotion.get("reason") or "")
            )
    else:
        yield attempt


def _is_done(run: RunRecord, step: str) -> bool:
    return step in run.steps and run.steps[step].state in DONE


def read_document(run: RunRecord, output: str) -> dict[str, Any] | None:
    """The JSON file of the output of this name, from whichever step has it."""
    details = LocalDetails(run)
    for step in run.steps.values():
        folder = details.step_outputs(step).get(output)
        if folder is not None:
            return read_json(Path(folder) / f"{output}.json")
    return None


def explain_failure(run: RunRecord) -> tuple[Cause, str]:
    """Why a run failed, by how its first failed process ended, and the sentence that says so."""
    step = next((step for step in run.steps.values() if step.state == "failed"), None)
    if step is None:
        return "machine", run.reason or "it could not be run to its end"
    error = next((line for line in reversed(step.last_lines or ()) if line.startswith("error: ")), "")
    reason = f"step `{step.name}`: {error.removeprefix('error: ') or step.reason or 'it failed'}"
    status = _find_status(run, step.name, step.failed_process)
    if status == RESUME_EXIT_STATUS:
        return "eviction", reason
    if status == HANG_EXIT_STATUS:
        return "hang", reason
    if status is not None and -status in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
        return "machine", reason
    if not error:  # components of ours explain a wrong input in such a line
        return "code", reason
    return ("data" if _reads_data(step.parameters) else "configuration"), reason


def _find_status(run: RunRecord, step: str, process: str | None) -> int | None:
    statuses = [
        event.get("status")
        for event in run.events
        if event["event"] == "process_ended" and event.get("step") == step and event.get("process") == process
    ]
    return statuses[-1] if statuses and isinstance(statuses[-1], int) else None


def _reads_data(parameters: Mapping[str, str]) -> bool:
    return "data" in parameters


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


def read_told(place: Place) -> frozenset[str]:
    """The causes of notices that were given."""
    causes = set()
    for path in (place.root / "told").glob("*"):
        with untrusted.passed_over():
            causes.add(untrusted.read_text(path))
    return frozenset(causes)


def mark_told(place: Place, cause: str) -> bool:
    """Remember that a notice is given; False if another look has given it.

    Raises:
        OSError: It cannot be remembered.
    """
    (place.root / "told").mkdir(exist_ok=True)
    path = place.root / "told" / hashlib.sha256(cause.encode()).hexdigest()[:16]
    try:
        write_whole(path, cause.encode(), new=True)
    except FileExistsError:
        return False
    return True
