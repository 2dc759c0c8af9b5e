"""One look on this machine: finds the facts, takes the action that they call for, and says how it ended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from worldsize import api
from worldsize.base import untrusted
from worldsize.base.problem import HelpfulError
from worldsize.base.wording import describe_os_error
from worldsize.checking import check_spec
from worldsize.checking.fixing import Setting, set_values
from worldsize.checking.specs import CheckedSpec
from worldsize.documents import yaml
from worldsize.documents.yaml.load import to_python
from worldsize.resolving.planned import Planned
from worldsize.resolving.step_estimates import estimate_steps
from worldsize.retraining import data, local
from worldsize.retraining.decide import Action, Notice, decide
from worldsize.retraining.facts import Facts, Fingerprint
from worldsize.retraining.local import AttemptRecord, Place, Start
from worldsize.retraining.policy import Policy, read_policy
from worldsize.running import api as running
from worldsize.running.launch.supervisor import GRACE_SECONDS, MARGIN_SECONDS
from worldsize.running.model.options import RunOptions
from worldsize.running.model.results import RunResult, View
from worldsize.running.record.folder import AliveError, find_runner, hold_lock, is_alive
from worldsize.running.record.history import RunRecord, load_run
from worldsize.running.record.models import DATA_TAG, HomeRegistry, list_metrics
from worldsize.running.reuse.digests import Digests
from worldsize.running.reuse.store import Store
from wschampion.champion import Version, find_champion
from wsmetrics.names import choose_headline
from wssources.split_settings import WINDOW

MAX_ACTIONS = 10  # of one look: the world may change while it acts
_QUEUE_SECONDS = 1.0  # between two tries of a look that waits for another
_PATIENCE = GRACE_SECONDS + MARGIN_SECONDS
_NOT_TRAINED = ("schedule", "retrain", "description", "display_name", "tags")  # keys that no model depends on
_INITIAL = "initial_model"  # the input of a trainer that has the weights to start from
_PLANNED = ("pipeline.yml", "plan.json", "schedule.yml")  # files that follow from the spec and the data


class RetrainError(HelpfulError):
    """A spec that cannot be retrained."""


class InterruptedLookError(Exception):
    """A signal has ended the run of a look."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Outcome(Struct, frozen=True):
    """How a look ended, as `worldsize retrain --json` prints it."""

    action: str  # train, none, stop, promote, keep, wait
    reason: str
    champion: Mapping[str, Any] | None = None
    challenger: Mapping[str, Any] | None = None
    difference: Mapping[str, Any] | None = None
    model: str | None = None  # the name in the registry


class Seen(Struct, frozen=True):
    """What one look works on."""

    place: Place
    checked: CheckedSpec
    policy: Policy
    now: float
    sources: list[data.Source]
    readings: Mapping[str, data.Reading]
    facts: Facts


def look(
    spec: Path,
    *,
    home: Path,
    now: float,
    view: View | None = None,
    notify: Callable[[Notice], None] = lambda _: None,
) -> Outcome:
    """Look at a spec, its data and its runs, and take at most one action.

    Two looks at the same moment train once: one of them holds the folder's lock until it is done.

    Raises:
        SpecError: The spec has errors.
        RetrainError: It has no ``retrain:``.
        RunError: Its pipeline cannot be run here.
        OSError: A file cannot be read or written.
    """
    checked = check_spec(spec)
    block = checked.planned.spec.retrain
    if block is None:
        raise RetrainError(
            f"`{spec}` has no `retrain:`", "add `retrain: {}`, which has a careful default for each key"
        )
    policy, place = read_policy(block), local.make_place(home, checked.planned.spec.name.value)
    actions = 0
    while actions < MAX_ACTIONS:
        with _hold(place) as held:
            seen = _read(place, checked, policy, now, looking=not held)
            action = decide(seen.facts, policy, now)
            for notice in action.notices:
                if local.mark_told(place, notice.cause):
                    notify(notice)
            run = _act(seen, action, view) if held or action.kind == "end" else None
            if run is not None and (outcome := _read_verdict(place, run)) is not None:
                return outcome
        if action.kind == "wait" and policy.overlap == "queue" and action.until is None:
            time.sleep(_QUEUE_SECONDS)
            continue
        if action.kind in ("none", "stop", "wait"):
            return _describe(seen, action)
        actions += 1
    return Outcome("wait", "the data changes faster than it can be read: look again later")


@contextlib.contextmanager
def _hold(place: Place) -> Iterator[bool]:
    """Hold the folder's lock; False if another look does."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(place.root, patience=_PATIENCE))
        except AliveError:
            yield False
        else:
            yield True


def _read(place: Place, checked: CheckedSpec, policy: Policy, now: float, *, looking: bool) -> Seen:
    digests, sources = Digests(Store(place.home).digests), data.list_sources(checked.planned)
    readings = {source.name: _read_source(source, policy, now, digests) for source in sources}
    fingerprint = Fingerprint(
        _digest_code(checked), {name: reading.fingerprint for name, reading in readings.items()}
    )
    pairs = local.read_attempts(place, estimate_seconds(checked.planned))
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
        firings=None if since is None else local.count_firings(schedule, since, now),
        told=local.read_told(place),
    )
    return Seen(place, checked, policy, now, sources, readings, facts)


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
    root = yaml.load(path).root
    assert root is not None
    spec = to_python(root)
    kept = {key: value for key, value in spec.items() if key not in _NOT_TRAINED}
    total = hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode())
    with tempfile.TemporaryDirectory(prefix="worldsize-") as folder:
        compiled = api.compile(path, Path(folder) / "compiled")
        for name in compiled.files:
            if name not in _PLANNED and not name.startswith("deepspeed/"):
                content = untrusted.read_bytes(compiled.folder / name)
                total.update(b"\0".join((b"", os.fsencode(name), hashlib.sha256(content).digest())))
    return total.hexdigest()


def _act(seen: Seen, action: Action, view: View | None) -> RunRecord | None:
    """Take an action; the run that it led to, if any."""
    if action.kind == "train":
        return _train(seen, view)
    if action.kind == "continue":
        assert action.run is not None
        return _continue(seen, action.run, view)
    if action.kind == "end":
        assert action.run is not None
        _end(seen.place.run(action.run))
    return None


def _train(seen: Seen, view: View | None) -> RunRecord | None:
    """Train on a copy of what was read; None if it has changed while it was copied."""
    place, planned = seen.place, seen.checked.planned
    folder = place.attempt(seen.facts.fingerprint)
    _drop_data(place)
    paths = {}
    for source in seen.sources:
        reading = seen.readings[source.name]
        paths[source] = folder / "data" / source.name / source.path.name
        data.keep_files(source, reading, paths[source])
        copy = replace(source, path=paths[source])
        if data.read_source(copy, Policy(), seen.now, Digests()).digest != reading.digest:
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
    record = local.read_record(folder) or AttemptRecord(seen.facts.fingerprint)
    record = replace(record, readings=seen.readings, trainers=tuple(trainers))
    clock = datetime.now(timezone.utc)
    run = f"{clock:%Y%m%d-%H%M%S}-{clock.microsecond // 1000:03}"
    local.add_start(folder, record, Start(run, seen.now))
    options = RunOptions(force=seen.policy.when == "always", settings=_start_from_champion(seen, trainers))
    result = running.run(compiled.pipeline, options, runs_dir=place.home, run_id=run, view=view, checked=True)
    return _finish(place, result)


def _start_from_champion(seen: Seen, trainers: Sequence[str]) -> dict[str, str]:
    """The inputs of the trainers that start from the champion, where the spec asks for that."""
    place, planned = seen.place, seen.checked.planned
    model, champion = _find_champion(place, seen.facts)
    if model is None or champion is None or not seen.policy.from_champion:
        return {}
    files = HomeRegistry(place.home).find_files(model, champion.version)
    steps = [planned.job.steps[name] for name in trainers]
    return {
        f"{step.name}.{_INITIAL}": str(files)
        for step in steps
        if files is not None
        and step.component is not None
        and _INITIAL in step.component.inputs
        and _INITIAL not in step.inputs
    }


def _continue(seen: Seen, name: str, view: View | None) -> RunRecord | None:
    """Continue a run where it stopped: what it has trained is not trained again."""
    for attempt, record in local.read_attempts(seen.place):
        if attempt.run == name:
            local.add_start(seen.place.attempt(record.fingerprint), record, Start(name, seen.now))
    return _finish(seen.place, running.resume(seen.place.run(name), view=view))


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
        time.sleep(_QUEUE_SECONDS)


def _read_verdict(place: Place, run: RunRecord) -> Outcome | None:
    """How a run ended that wrote a promotion."""
    promotion = local.read_document(run, "promotion") if run.state == "succeeded" else None
    if promotion is None:
        return None
    _drop_data(place)
    comparison = local.read_document(run, "comparison") or {}
    return Outcome(
        "promote" if promotion.get("action") == "promote" else "keep",
        str(promotion.get("reason") or comparison.get("reason") or ""),
        comparison.get("champion"),
        comparison.get("challenger"),
        comparison.get("difference"),
        promotion.get("name"),
    )


def _describe(seen: Seen, action: Action) -> Outcome:
    """How a look ended that trained nothing, with the champion that the registry has."""
    model, champion = _find_champion(seen.place, seen.facts)
    described = None
    if champion is not None:
        metrics = list_metrics(champion)
        name = seen.policy.metric or next(iter(choose_headline(metrics)), "")
        described = {
            "name": model,
            "version": champion.version,
            "metric": metrics.get(name),
            "trained_until": champion.tags.get(f"{DATA_TAG}trained_before"),
        }
    return Outcome(action.kind, action.reason, described, model=model)


def _find_champion(place: Place, facts: Facts) -> tuple[str | None, Version | None]:
    """The name under which the last success was registered, and the champion of that name."""
    if not facts.successes:
        return None, None
    run = load_run(place.run(facts.successes[-1].run))
    model = (local.read_document(run, "promotion") or {}).get("name")
    return model, find_champion(HomeRegistry(place.home).versions(model)) if model else None
