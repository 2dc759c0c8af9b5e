"""This machine as a look finds it: the folders of runs, beside a record of what each attempt has read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from worldsize import api
from worldsize.api.look_files import INITIAL, REFERENCE, digest_code, list_takers
from worldsize.base import untrusted
from worldsize.base.whole_file import write_whole
from worldsize.base.wording import describe_os_error
from worldsize.checking import check_spec
from worldsize.checking.fixing import Setting, set_values
from worldsize.checking.specs import CheckedSpec
from worldsize.documents import yaml
from worldsize.resolving.planned import Planned
from worldsize.resolving.step_estimates import estimate_steps
from worldsize.retraining import data, tell
from worldsize.retraining.data import Reading
from worldsize.retraining.decide import Action, Notice
from worldsize.retraining.facts import (
    Attempt,
    Cause,
    Facts,
    Fingerprint,
    add_verdict,
    find_limit,
    read_verdict,
)
from worldsize.retraining.look import Outcome, count_firings, describe_champion, require_policy, take_look
from worldsize.retraining.looks import LookRecord, add_look
from worldsize.retraining.policy import Policy
from worldsize.running import api as running
from worldsize.running.launch.supervisor import GRACE_SECONDS, MARGIN_SECONDS
from worldsize.running.model.folder import ignore_in_git
from worldsize.running.model.options import RunOptions
from worldsize.running.model.results import DONE, RunResult, View
from worldsize.running.record.details import LocalDetails
from worldsize.running.record.folder import AliveError, find_runner, hold_lock, is_alive
from worldsize.running.record.history import RECORD, RunRecord, StepRecord, load_run
from worldsize.running.record.json_files import read_json, write_json
from worldsize.running.record.models import HomeRegistry, archive_surplus
from worldsize.running.reuse.digests import Digests
from worldsize.running.reuse.store import Store
from wschampion.champion import Version, find_champion
from wsshards.errors import RESUME_EXIT_STATUS
from wsshards.manifest import FEED_NAME
from wssources.split_settings import WINDOW
from wstrain.health.watchdog import HANG_EXIT_STATUS

ATTEMPT = "attempt.json"
_POLL_SECONDS = 1.0
_PATIENCE = GRACE_SECONDS + MARGIN_SECONDS


class Start(Struct, frozen=True):
    """A look that started or continued a run."""

    run: str
    now: float  # the time of the look
    reason: str = ""  # of its decision


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
        return self.root / fingerprint.digest

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
    limit = find_limit((attempt for attempt, _ in attempts), estimated)
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
        yield add_verdict(attempt, read_document(run, "promotion"))
    else:
        yield attempt


def _is_done(run: RunRecord, step: str) -> bool:
    return step in run.steps and run.steps[step].state in DONE


def read_document(run: RunRecord, output: str, file: str | None = None) -> dict[str, Any] | None:
    """The JSON file of the output of this name, by default named as it, from whichever step has it."""
    details = LocalDetails(run)
    for step in run.steps.values():
        folder = details.step_outputs(step).get(output)
        if folder is not None:
            return read_json(Path(folder) / (file or f"{output}.json"))
    return None


def explain_failure(run: RunRecord) -> tuple[Cause, str]:
    """Why a run failed, by how its first failed process ended, and the sentence that says so."""
    step = next((step for step in run.steps.values() if step.state == "failed"), None)
    if step is None:
        return "machine", run.reason or "it could not be run to its end"
    status = _find_status(run, step.name, step.failed_process)
    return judge_failure(step, step.last_lines or (), status)


def judge_failure(step: StepRecord, lines: Sequence[str], status: int | None) -> tuple[Cause, str]:
    """Why a step failed, by the last lines and the exit status of its first failed process."""
    error = next((line for line in reversed(lines) if line.startswith("error: ")), "")
    reason = f"step `{step.name}`: {error.removeprefix('error: ') or step.reason or 'it failed'}"
    if status == RESUME_EXIT_STATUS:
        return "eviction", reason
    if status == HANG_EXIT_STATUS:
        return "hang", reason
    # Without a status no process could be started, such as on a full disk.
    if status is None or -status in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
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


class InterruptedLookError(Exception):
    """A signal has ended the run of a look."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LocalSeen(Struct, frozen=True):
    """The facts of this machine, and the data that they come from."""

    facts: Facts
    sources: list[data.Source]
    readings: Mapping[str, data.Reading]


class LocalWorld(Struct, frozen=True):
    """This machine: the runs of a home, and the registry of its MLflow."""

    place: Place
    checked: CheckedSpec
    policy: Policy
    now: float
    view: View | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the folder's lock; False if another look does."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(hold_lock(self.place.root, patience=_PATIENCE))
            except AliveError:
                yield False
            else:
                yield True

    def see(self, *, looking: bool) -> LocalSeen:
        """Read the data and the runs."""
        return _see(self, looking=looking)

    def act(self, seen: LocalSeen, action: Action) -> Outcome | None:
        """Take an action; the verdict of the run that it led to, if that has one."""
        run = _act(self, seen, action)
        outcome = None if run is None else _read_verdict(self.place, run)
        if outcome is not None and outcome.model is not None:
            with contextlib.suppress(OSError, sqlite3.Error):  # the next training tries it again
                archive_surplus(HomeRegistry(self.place.home), outcome.model, self.policy.models)
        return outcome

    def describe(self, seen: LocalSeen, action: Action) -> Outcome:
        """How a look ends that trains nothing, with the champion that the registry has."""
        attempts = seen.facts.attempts
        if not any(attempt.run == action.run and attempt.began == self.now for attempt in attempts):
            add_look(self.place.root, LookRecord(self.now, action.kind, action.reason))
        model, champion = _find_champion(self.place, seen.facts)
        described = None if champion is None else describe_champion(model, champion, self.policy)
        return Outcome(action.kind, action.reason, described, model=model)

    def mark_told(self, _seen: LocalSeen, cause: str, /) -> bool:
        """Remember that a notice is given."""
        return mark_told(self.place, cause)


def look(
    spec: Path,
    *,
    home: Path,
    now: float,
    view: View | None = None,
    notify: Callable[[Notice], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Look at a spec, its data and its runs on this machine, and take at most one action.

    Raises:
        SpecError: The spec has errors.
        RetrainError: It has no ``retrain:``.
        RunError: Its pipeline cannot be run here.
        OSError: A file cannot be read or written.
    """
    checked = check_spec(spec)
    policy = require_policy(checked.planned.spec)
    place = make_place(home, checked.planned.spec.name.value)
    secret = tell.take_secret(policy)

    def give(notice: Notice) -> None:
        tell.add_due(place.root, notice, policy)
        notify(notice)

    try:
        return take_look(LocalWorld(place, checked, policy, now, view), policy, now, give)
    finally:
        tell.send_due(place.root, policy, secret, now, warn)


def _see(world: LocalWorld, *, looking: bool) -> LocalSeen:
    place, checked, policy, now = world.place, world.checked, world.policy, world.now
    digests, planned = Digests(Store(place.home).digests), checked.planned
    sources = data.list_sources(planned.job, planned.spec.path.parent)
    readings = {source.name: _read_source(source, policy, now, digests) for source in sources}
    fingerprint = Fingerprint(
        _digest_code(checked), {name: reading.fingerprint for name, reading in readings.items()}
    )
    pairs = read_attempts(place, estimate_seconds(planned))
    successes = [(attempt, record) for attempt, record in pairs if attempt.state == "finished"]
    last = successes[-1][1] if successes else None
    new_rows: dict[str, int] = {}
    for source in sources:
        before = last.readings.get(source.name) if last is not None else None
        if before is None or before.fingerprint != readings[source.name].fingerprint:
            reading = readings[source.name] = data.count_rows(source, readings[source.name], before)
            rows = data.count_new_rows(reading, before)
            new_rows |= {} if rows is None else {source.name: rows}
    since = successes[-1][0].firing if successes else pairs[0][0].firing if pairs else None
    schedule = checked.planned.spec.schedule
    facts = Facts(
        fingerprint,
        tuple(attempt for attempt, _ in pairs),
        looking=looking,
        feed_faults=tuple(reading.fault for reading in readings.values() if reading.fault is not None),
        new_rows=new_rows,
        firings=None if since is None else count_firings(schedule, since, now),
        told=read_told(place),
    )
    return LocalSeen(facts, sources, readings)


def estimate_seconds(planned: Planned) -> float | None:
    """The most time that the plan estimates for all training steps; None if it is not known of one."""
    times = [step.total_seconds for step in estimate_steps(planned).values()]
    return sum(time.high for time in times if time is not None) if times and None not in times else None


def _read_source(source: data.Source, policy: Policy, now: float, digests: Digests) -> data.Reading:
    try:
        return data.read_source(source, policy, now, digests)
    except OSError as error:
        return data.Reading(
            "", fault=f"`{source.name}` cannot be read: {describe_os_error(error, file=True)}"
        )


def _digest_code(checked: CheckedSpec) -> str:
    """A digest of the spec, the code and the environments, without what follows from the data."""
    path = checked.planned.spec.path
    with tempfile.TemporaryDirectory(prefix="worldsize-") as folder:
        compiled = api.compile(path, Path(folder) / "compiled")
        contents = {name: compiled.folder / name for name in compiled.files}
        return digest_code(untrusted.read_text(path), contents)


def _act(world: LocalWorld, seen: LocalSeen, action: Action) -> RunRecord | None:
    """Take an action; the run that it led to, if any."""
    if action.kind == "train":
        return _train(world, seen, action.reason)
    if action.kind == "continue":
        assert action.run is not None
        return _continue(world, action.run, action.reason)
    if action.kind == "end":
        assert action.run is not None
        _end(world.place.run(action.run))
    return None


def _train(world: LocalWorld, seen: LocalSeen, reason: str) -> RunRecord | None:
    """Train on a copy of what was read; None if it has changed while it was copied."""
    place, planned = world.place, world.checked.planned
    folder = place.attempt(seen.facts.fingerprint)
    _drop_data(place)
    paths = {}
    for source in seen.sources:
        reading = seen.readings[source.name]
        paths[source] = folder / "data" / source.name / source.path.name
        data.keep_files(source, reading, paths[source])
        copy = replace(source, path=paths[source])
        if data.read_source(copy, Policy(), world.now, Digests()).digest != reading.digest:
            return None
    spec = planned.spec.path
    text = data.replace_paths(untrusted.read_text(spec), paths, spec.parent)
    windows = [
        Setting(("steps", step, "with", WINDOW), json.dumps(seen.readings[source.name].window))
        for source in seen.sources
        for step in source.readers
        if seen.readings[source.name].window is not None
    ]
    document = yaml.load(spec, text)
    document = yaml.load(spec, set_values(document, windows)) if windows else document
    compiled = api.compile(spec, folder / "pipeline", document)
    trainers = [name for name, step in planned.complete_plan.steps.items() if step.training is not None]
    record = read_record(folder) or AttemptRecord(seen.facts.fingerprint)
    record = replace(record, readings=seen.readings, trainers=tuple(trainers))
    clock = datetime.now(timezone.utc)
    run = f"{clock:%Y%m%d-%H%M%S}-{clock.microsecond // 1000:03}"
    add_start(folder, record, Start(run, world.now, reason))
    options = RunOptions(
        force=world.policy.when == "always", settings=_hand_over_champion(world, seen.facts, trainers)
    )
    result = running.run(
        compiled.pipeline, options, runs_dir=place.home, run_id=run, view=world.view, checked=True
    )
    return _finish(place, result)


def _hand_over_champion(world: LocalWorld, facts: Facts, trainers: Sequence[str]) -> dict[str, str]:
    """The inputs that the champion gives: statistics of its feed, and its weights where the spec says so."""
    model, champion = _find_champion(world.place, facts)
    files = HomeRegistry(world.place.home).find_files(model, champion.version) if model and champion else None
    if files is None:
        return {}
    planned, settings = world.checked.planned, {}
    if world.policy.from_champion:
        starting = [name for name in list_takers(planned, INITIAL) if name in trainers]
        settings = {f"{name}.{INITIAL}": str(files) for name in starting}
    judges = list_takers(planned, REFERENCE)
    if len(judges) == 1 and (files / FEED_NAME).is_file():  # of several feeds, it may be another's
        settings[f"{judges[0]}.{REFERENCE}"] = str(files / FEED_NAME)
    return settings


def _continue(world: LocalWorld, name: str, reason: str) -> RunRecord:
    """Continue a run where it stopped: what it has trained is not trained again."""
    for attempt, record in read_attempts(world.place):
        if attempt.run == name:
            start = Start(name, world.now, reason)
            add_start(world.place.attempt(record.fingerprint), record, start)
    return _finish(world.place, running.resume(world.place.run(name), view=world.view))


def _finish(place: Place, result: RunResult) -> RunRecord:
    if result.signal is not None:
        raise InterruptedLookError(result.signal)
    return load_run(place.run(result.id))


def _drop_data(place: Place) -> None:
    """Remove the copies of data that attempts have left which nobody continues."""
    for folder in place.root.glob("*/data"):
        shutil.rmtree(folder, ignore_errors=True)


def _end(root: Path) -> None:
    """End a run, as SIGTERM does, and wait until its processes are gone."""
    deadline = time.monotonic() + _PATIENCE
    while (runner := find_runner(root)) is not None and is_alive(root) and time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            os.kill(runner, signal.SIGTERM)
        time.sleep(_POLL_SECONDS)


def _read_verdict(place: Place, run: RunRecord) -> Outcome | None:
    """How a run ended that wrote a promotion."""
    promotion = read_document(run, "promotion") if run.state == "succeeded" else None
    if promotion is None:
        return None
    _drop_data(place)
    comparison = read_document(run, "comparison") or {}
    return Outcome(
        read_verdict(promotion),
        str(promotion.get("reason") or comparison.get("reason") or ""),
        comparison.get("champion"),
        comparison.get("challenger"),
        comparison.get("difference"),
        promotion.get("name"),
    )


def _find_champion(place: Place, facts: Facts) -> tuple[str | None, Version | None]:
    """The name under which the last success was registered, and the champion of that name."""
    if not facts.successes:
        return None, None
    run = load_run(place.run(facts.successes[-1].run))
    model = (read_document(run, "promotion") or {}).get("name")
    return model, find_champion(HomeRegistry(place.home).versions(model)) if model else None
